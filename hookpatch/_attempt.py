"""One patch in one session: from waiting for its module to its end."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final
from weakref import ref

from hookpatch import _everywhere, _guard, _imports, _task
from hookpatch._layer import Layer
from hookpatch._ledger import Asked, Entry, Ledger
from hookpatch._patch import Scope
from hookpatch._resolve import resolve
from hookpatch._selection import EXIT_STATUS
from hookpatch._site import Site, site_at
from hookpatch._slot import FunctionSlot, Slot, own_beneath
from hookpatch.errors import (
    ApplyError,
    DisplacedWarning,
    HookpatchError,
    HookpatchWarning,
    PatchFailedWarning,
    PatchUnneededWarning,
)

Policy: TypeAlias = Literal["exit", "warn"]


@final
class Attempt:
    """One patch in one session. Lives as long as the session."""

    def __init__(
        self, asked: Asked, rank: tuple[int, ...], ledger: Ledger, policy: Policy, scope: Scope = "process"
    ) -> None:
        self._asked: Final = asked
        self._rank: Final = rank
        self._ledger: Final = ledger
        self._policy: Final = policy
        self._scope: Final = scope
        self._entry: Entry = ledger.open(asked)
        self._placed: list[tuple[Entry, Site, Layer]] = []
        self._entered: tuple[Entry, ExitStack] | None = None
        self._watch: _imports.Watch | None = None
        self._derived: Final[dict[int, tuple[Any, Any]]] = {}
        self._were_there: Final = _imports.names() if asked.patch.reach == "everywhere" else frozenset()

    def skip(self, reason: str) -> None:
        """Never apply it."""
        self._entry.become("skipped", reason)

    def begin(self) -> None:
        """Apply it if its module is there, and hear of the module's imports from now on.

        Raises:
            HookpatchError: it cannot be applied, and is required.
        """
        name = self._asked.patch.module
        try:
            if name is None:
                self._apply(None)
                return
            self._watch = _imports.watch(name, self._arrive)
            module = _imports.present(name)
            if module is not None:
                self._apply(module)
        except HookpatchError as error:
            self._entry.become("failed", str(error))
            raise

    def check(self) -> None:
        """Look whether it can be applied, if its module is there; change nothing.

        Raises:
            HookpatchError: it cannot, and is required.
        """
        patch = self._asked.patch
        module = _imports.present(patch.module) if patch.module is not None else None
        if not patch.required or patch.target is None or (module is None and patch.module is not None):
            return
        _guard.check_requirement(patch, self._asked.owner)
        _guard.check_scope(patch, self._scope, self._asked.owner)
        slot = resolve(patch.target, module, self._asked.owner)
        _guard.check_slot(patch, slot, own_beneath(slot), self._asked.owner)
        _everywhere.check(patch, slot, self._asked.owner)

    def end(self, errors: list[Exception]) -> None:
        """Take it back wherever it was applied, past every error; add them to ``errors``."""
        if self._watch is not None:
            self._watch.cancel()
        if self._entry.state == "waiting":
            self._entry.become("unused", f"{self._asked.patch.module} was never imported")
        undos = [(entry, partial(self._drop, entry, site, layer)) for entry, site, layer in self._placed]
        if self._entered is not None:
            entry, stack = self._entered
            undos.append((entry, partial(self._leave, entry, stack)))
        placed, self._placed, self._entered = self._placed, [], None
        stood = [(site, entry.held, site.stands) for entry, site, _ in placed if entry.held is not None]
        for entry, undo in reversed(undos):
            try:
                undo()
            except HookpatchWarning as warning:  # made an error by the user; the undo itself is done
                errors.append(warning)
            except Exception as error:  # collected: the other undos follow, and RestoreError tells of all
                entry.become("failed", f"could not be taken back: {type(error).__name__}: {error}")
                errors.append(error)
        for entry, _, _ in placed:
            entry.held, entry.put = None, ()  # the session may be kept for its report, and is to keep nothing alive
        if self._asked.patch.reach == "everywhere":
            gone = {id(value): (value, held) for site, held, value in stood if not site.layers}
            _everywhere.call_back(gone.values(), self._were_there, errors.append)

    def _arrive(self, module: ModuleType) -> None:
        """Apply it to a module that was executed just now, inside somebody's import."""
        try:
            self._apply(module, anew=True)
        except HookpatchError as error:
            self._fresh_entry().become("failed", str(error))
            if self._asked.patch.required and self._policy == "exit":
                sys.stderr.write(f"hookpatch: error: {error}\n")
                raise SystemExit(EXIT_STATUS) from error
            warnings.warn(f"not patched: {error}", PatchFailedWarning, stacklevel=2)

    def _apply(self, module: ModuleType | None, anew: bool = False) -> None:
        """Apply it; when it does not fit and is not required, note that it is skipped.

        Args:
            module: its module, None for an object at hand.
            anew: True when the module was executed just now.

        Raises:
            HookpatchError: it does not fit, and is required.
        """
        patch, owner = self._asked.patch, self._asked.owner
        try:
            try:
                self._guarded(module, anew)
            except (HookpatchError, HookpatchWarning):  # a warning that the user made an error stays his
                raise
            except Exception as error:
                problem = f"the {patch.verb} raised {type(error).__name__}: {error}"
                raise ApplyError(patch.address, owner, problem) from error
        except ApplyError as error:
            if patch.required:
                raise
            self._fresh_entry().become("skipped", str(error))

    def _guarded(self, module: ModuleType | None, anew: bool) -> None:
        patch, owner = self._asked.patch, self._asked.owner
        _guard.check_requirement(patch, owner)
        _guard.check_scope(patch, self._scope, owner)
        if (reason := _guard.unneeded(patch, owner)) is not None:
            warnings.warn(f"{patch.address} of {owner}: {reason}", PatchUnneededWarning, stacklevel=2)
        if patch.verb == "enter":
            assert module is not None  # enter has a module, and this is it
            self._enter(module)
        else:
            self._place(module, anew)

    def _place(self, module: ModuleType | None, anew: bool) -> None:
        patch, owner = self._asked.patch, self._asked.owner
        assert patch.target is not None  # only enter has none
        slot = resolve(patch.target, module, owner)
        if anew:
            site_at(slot).refresh()  # before anything is looked up: if it has layers, it still has the old original
        held = own_beneath(slot)
        _guard.check_slot(patch, slot, held, owner)
        placed = {site.slot.key: site for _, site, _ in self._placed}
        _everywhere.check(patch, slot, owner)
        for at, words in _everywhere.places(patch, slot):
            if at.key in placed:
                placed[at.key].refresh()  # reloaded: the module is the same, what it holds is new
                continue
            try:
                self._lay(at, words, None if isinstance(at, FunctionSlot) else _everywhere.inner(held))
            except Exception:
                if words is None:
                    raise  # the target itself; another place that cannot be set is found in the report as stale

    def _lay(self, slot: Slot, words: str | None, held: object) -> None:
        """Put a layer on a slot, and note it."""
        site = site_at(slot)
        gate = partial(_task.only_inside, self._rank[0]) if self._scope == "task" else None
        layer = Layer(self._asked.patch, self._asked.plugin, self._asked.owner, self._rank, gate, self._derived)
        site.add(layer)
        entry = self._fresh_entry()
        entry.become("applied")
        entry.place, entry.held, entry.put = words, held, layer.put
        layer.tell = partial(self._left_out, entry)
        self._placed.append((entry, site, layer))

    def _left_out(self, entry: Entry, error: Exception | None) -> None:
        """Note that a patch that was applied has no effect, since another one beneath it has ended, or has it again."""
        if error is None:
            entry.become("applied")
            return
        entry.become("failed", f"no longer applied: {error}")
        said = f"{self._asked.patch.address} of {self._asked.owner}: {entry.reason}"
        warnings.warn(said, PatchFailedWarning, stacklevel=2)

    def _enter(self, module: ModuleType) -> None:
        if self._entered is not None:
            self._entered[1].close()  # reloaded: leave it for the old content, enter it for the new
        stack = ExitStack()
        stack.enter_context(self._asked.patch.change(module))
        entry = self._entered[0] if self._entered is not None else self._fresh_entry()
        entry.become("applied")
        self._entered = entry, stack

    def _fresh_entry(self) -> Entry:
        """Return the entry that waits, or a new one: its module was imported more than once."""
        if self._entry.state != "waiting":
            self._entry = self._ledger.open(self._asked)
        return self._entry

    def _leave(self, entry: Entry, stack: ExitStack) -> None:
        stack.close()
        entry.become("restored")

    def _drop(self, entry: Entry, site: Site, layer: Layer) -> None:
        left_out = entry.state == "failed"
        entry.become("restored")
        ending = site.drop(layer, partial(_given_back, ref(entry)))
        if left_out:
            entry.become("failed", "was not applied when it ended: what it lay over had gone before")
        if ending == "restored" or left_out:
            return
        reason = _REASONS[ending].format(slot=site.slot)
        entry.become(ending, reason)
        if ending == "displaced":
            warnings.warn(
                f"{self._asked.patch.address} of {self._asked.owner}: {reason}", DisplacedWarning, stacklevel=2
            )


def _given_back(entry: Callable[[], Entry | None]) -> None:
    """Note that a slot holds its original after all: weakly, for the entry knows the patch, which has what was put."""
    if (still_there := entry()) is not None:
        still_there.become("restored", "once what somebody else had put there was gone")


_REASONS: Final = {
    "unlinked": "somebody else's wrapper stands at {slot}; ours was taken out from beneath it",
    "dormant": "what somebody else put at {slot} lies over ours, which passes through from now on",
    "displaced": "somebody else changed {slot} meanwhile; it was left alone",
}
