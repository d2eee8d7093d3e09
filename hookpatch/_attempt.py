"""One patch in one session: from waiting for its module to its end."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from hookpatch import _changes, _everywhere, _guard, _imports, _task
from hookpatch._beneath import own_beneath
from hookpatch._counted import counters
from hookpatch._function_slot import FunctionSlot
from hookpatch._layer import Gate, Layer
from hookpatch._ledger import Asked, Entry, Ledger
from hookpatch._patch import Scope
from hookpatch._place import Entered, Place
from hookpatch._requirement import unneeded
from hookpatch._resolve import resolve
from hookpatch._site import Site
from hookpatch._sites import site_at
from hookpatch._slot import Slot, inner
from hookpatch._stderr import refusal
from hookpatch.errors import (
    ApplyError,
    DriftWarning,
    HookpatchError,
    HookpatchWarning,
    PatchFailedWarning,
    PatchUnneededWarning,
    for_stderr,
)

if TYPE_CHECKING:
    from hookpatch._drift import Drift  # it needs tomllib and more, and most sessions have no lock file

Policy: TypeAlias = Literal["exit", "warn"]
_NONE: Final[list[Entered]] = []  # of those that enter nothing, which are most; never written to


@final
class Attempt:
    """One patch in one session. Lives as long as the session.

    A session may be closed while another thread imports a module of it, and applies a patch there. So what is applied
    is noted before that, and then looked whether the end has come; the end is noted before what was applied is taken.
    """

    __slots__ = (
        *("_asked", "_count", "_derived", "_drift", "_ended", "_entered", "_entry", "_ledger", "_owner", "_placed"),
        *("_policy", "_rank", "_scope", "_warnings", "_watch", "_were_there"),
    )

    def __init__(
        self,
        asked: Asked,
        rank: tuple[int, ...],
        ledger: Ledger,
        policy: Policy,
        scope: Scope = "process",
        count: bool = False,
        drift: Drift | None = None,
    ) -> None:
        self._asked: Final = asked
        self._owner: Final = asked.owner
        self._rank: Final = rank
        self._ledger: Final = ledger
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._warnings: tuple[str, ...] = ()  # what was said of the patch that is being applied
        self._entry: Entry = ledger.open(asked)
        self._ended = False
        self._placed: Final[dict[Site, Place]] = {}
        self._entered: Final[list[Entered]] = [] if asked.patch.verb == "enter" else _NONE
        self._watch: _imports.Watch | None = None
        self._derived: Final[dict[int, tuple[Any, Any]] | None] = {} if asked.patch.verb == "derive" else None
        self._were_there: frozenset[str] | None = None  # the modules, for a patch that is taken back where it came to

    @property
    def touched(self) -> list[Site]:
        """The sites that it lies on."""
        return list(self._placed)

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
        _guard.check_patch(patch, self._scope, self._owner)
        slot = resolve(patch.target, module, self._owner)
        held = own_beneath(slot)
        _guard.check_slot(patch, slot, held, self._owner)
        _everywhere.check(patch, slot, held, self._owner)
        if self._drift is not None and self._drift.policy == "error":
            self._drift.look(patch, slot, self._owner)

    def end(self, errors: list[Exception], touched: list[Site]) -> None:
        """Take it back wherever it was applied, past every error; collect those, and the sites that it lay on."""
        if self._watch is not None:
            self._watch.cancel()
        self._ended = True
        touched += self._placed
        placed = list(self._placed.values())
        self._placed.clear()
        if self._entry.state == "waiting":
            self._entry.become("unused", f"{self._asked.patch.module} was never imported")
        stood: list[tuple[Site, Any, Any]] = []
        if self._were_there is not None:
            stood = [(one.site, one.held, one.site.stands) for one in placed if one.held is not None]
        for one in reversed(placed):
            self._undo(one, errors)
            one.let_go()
        self._leave(errors)
        if self._were_there is not None:
            gone = {id(value): (value, held) for site, held, value in stood if not site.layers}
            if gone:  # not of a function that was changed in place
                _everywhere.call_back(gone.values(), self._were_there, errors.append)

    def _undo(self, one: Place | Entered, errors: list[Exception]) -> None:
        try:
            one.drop(self._asked)
        except HookpatchWarning as warning:  # made an error by the user; the undo itself is done
            errors.append(warning)
        except Exception as error:  # collected: the other undos follow, and RestoreError tells of all
            if one.entry is not None:
                one.entry.become("failed", f"could not be taken back: {type(error).__name__}: {error}")
            errors.append(error)

    def _arrive(self, module: ModuleType) -> None:
        """Apply it to a module that was executed just now, inside somebody's import."""
        try:
            self._apply(module, anew=True)
            for failure in _changes.tell(self.touched):
                warnings.warn(str(failure), PatchFailedWarning, stacklevel=2)
        except HookpatchError as error:
            self._fresh_entry().become("failed", str(error))
            if self._asked.patch.required and self._policy == "exit":
                raise refusal(for_stderr(error)) from error
            warnings.warn(f"not patched: {error}", PatchFailedWarning, stacklevel=2)
        finally:
            self._ledger.tell()

    def _apply(self, module: ModuleType | None, anew: bool = False) -> None:
        """Apply it; when it does not fit and is not required, note that it is skipped.

        Args:
            module: its module, None for an object at hand.
            anew: True when the module was executed just now.

        Raises:
            HookpatchError: it does not fit, and is required.
        """
        patch, owner = self._asked.patch, self._owner
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
        patch, owner = self._asked.patch, self._owner
        self._warnings = ()
        _guard.check_patch(patch, self._scope, owner)
        if (reason := unneeded(patch, owner)) is not None:
            self._warn(reason, f"{patch.address} of {owner}: {reason}", PatchUnneededWarning)
        if patch.verb != "enter":
            return self._place(module, anew)
        assert module is not None  # enter has a module, and this is it
        return self._enter(module)

    def _warn(self, reason: str, said: str, kind: type[HookpatchWarning]) -> None:
        self._warnings = (*self._warnings, reason)
        warnings.warn(said, kind, stacklevel=3)

    def _place(self, module: ModuleType | None, anew: bool) -> None:
        patch, owner = self._asked.patch, self._owner
        assert patch.target is not None  # only enter has none
        slot = resolve(patch.target, module, owner)
        if anew:
            site_at(slot).refresh()  # before anything is looked up: if it has layers, it still has the old original
        held = own_beneath(slot)
        _guard.check_slot(patch, slot, held, owner)
        _everywhere.check(patch, slot, held, owner)
        if self._drift is not None and (reason := self._drift.look(patch, slot, owner)) is not None:
            if self._drift.policy == "skip":
                self._fresh_entry().become("skipped", reason)
                return
            self._warn(reason, f"{reason} (target {patch.address} of {owner})", DriftWarning)
        for at, words in _everywhere.places(patch, slot, held):
            try:
                self._lay(at, words, None if isinstance(at, FunctionSlot) else inner(held))
            except Exception:
                if words is None:
                    raise  # the target itself; another place that cannot be set is found in the report as stale

    def _lay(self, slot: Slot, words: str | None, held: object) -> None:
        """Put a layer on a slot, and note it."""
        site = site_at(slot)
        if held is not None and self._asked.patch.reach == "everywhere":
            self._were_there = self._ledger.were_there
        gate: Gate | None = partial(_task.only_inside, self._rank[0]) if self._scope == "task" else None
        asked, patch = self._asked, self._asked.patch
        tally, gate, count = counters(patch, self._count, gate)
        layer = Layer(patch, asked.plugin, self._owner, self._rank, gate, self._derived, asked.distribution, count)
        one = Place(site, layer)
        known = self._placed.setdefault(site, one)
        if self._ended:
            if known is one:
                self._placed.pop(site, None)
            return
        if known is not one:
            known.site.refresh()  # reloaded: the module is the same, what it holds is new
            return

        def note() -> None:
            one.note(self._fresh_entry(), words, held, tally, self._warnings)

        layer.notes = one
        try:
            site.add(layer, note)
        except BaseException:
            self._placed.pop(site, None)
            layer.end()
            raise
        one.library = _changes.await_library(site, layer)
        if self._ended and one.library is not None:
            one.library.cancel()

    def _enter(self, module: ModuleType) -> None:
        entry = None
        while (before := self._taken()) is not None:
            entry = before.entry
            before.stack.close()  # reloaded: leave it for the old content, enter it for the new
        stack = ExitStack()
        stack.enter_context(self._asked.patch.change(module))
        entry = entry or self._fresh_entry()
        entry.become("applied")
        entry.warnings = self._warnings
        self._entered.append(Entered(entry, stack))
        if self._ended:
            errors: list[Exception] = []
            self._leave(errors)
            if errors:
                raise errors[0]

    def _fresh_entry(self) -> Entry:
        """Return the entry that waits, or a new one: its module was imported more than once."""
        if self._entry.state != "waiting":
            self._entry = self._ledger.open_again(self._asked)
        return self._entry

    def _leave(self, errors: list[Exception]) -> None:
        while (one := self._taken()) is not None:
            self._undo(one, errors)

    def _taken(self) -> Entered | None:
        try:
            return self._entered.pop() if self._entered else None
        except IndexError:  # another thread took it
            return None
