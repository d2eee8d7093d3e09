"""The lifecycle of one patch in one session: waiting for its module, applied, ended.

Each kind of target has a subclass in a file of its own. The subclass applies the patch and restores the patch.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._bootstrap.stderr import refusal
from hookpatch._engine.patch.patch import Scope
from hookpatch._engine.patch.process_end import raised, text_of
from hookpatch._engine.patch.versions import unneeded
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.slots import guard
from hookpatch._plugins import notify
from hookpatch._session.ledger import Entry, Ledger, Requested
from hookpatch.errors import (
    ApplyError,
    HookpatchError,
    HookpatchWarning,
    LateWarning,
    PatchFailedWarning,
    PatchUnneededWarning,
    for_stderr,
    warn,
)

if TYPE_CHECKING:
    from hookpatch._engine.lock.drift import Drift  # slow to import, and most sessions have no lock file

Policy: TypeAlias = Literal["exit", "warn"]
Formers: TypeAlias = dict[Site, Former]


class Lifecycle:
    """The lifecycle of one patch in one session.

    Thread safety without a lock: a thread notes an act of applying and then reads ``_ended``; ``restore`` sets
    ``_ended`` and takes the noted acts afterwards. Whichever thread comes second sees the other's mark. Therefore
    no act comes after the end, and no act is forgotten. GIL: each step is a single operation of a dict, a list or an
    attribute; all threads see the steps in the same order.
    """

    __slots__ = (
        *("_count", "_drift", "_ended", "_entry", "_late", "_ledger", "_owner", "_patch", "_policy", "_rank"),
        *("_request", "_scope", "_warnings", "_watch"),
    )

    def __init__(
        self,
        request: Requested,
        rank: tuple[int, ...],
        ledger: Ledger,
        policy: Policy,
        scope: Scope = "process",
        count: bool = False,
        drift: Drift | None = None,
    ) -> None:
        self._request: Final = request
        self._patch = request.patch  # with source=, the patch with the value found
        self._owner: Final = request.owner
        self._rank: Final = rank
        self._ledger: Final = ledger
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._late = ""  # why the patch of a match could not be applied in time
        self._warnings: tuple[str, ...] = ()  # made while the patch is being applied
        self._entry: Entry = ledger.open(request)
        self._ended = False
        self._watch: imports.Watch | None = None

    @property
    def touched(self) -> list[Site]:
        """The sites of the patch's layers, for notifying plugins."""
        return []

    def skip(self, reason: str) -> None:
        """Never apply the patch."""
        self._entry.become("skipped", reason)

    def await_addition(self) -> None:
        """Note that the refused patch waits for another patch of the session, which may add the name."""
        self._entry.become("waiting")

    # --- checked first, then applied

    def check(self) -> list[Any]:
        """Raise like ``begin`` if a required patch cannot be applied to the imported module; change nothing.

        Return the objects for the search of holders, if the patch needs a search.
        """
        if self._request.patch.required:
            guard.check_not_run(self._request.patch, self._owner)
        return []

    def begin(self) -> None:
        """Apply the patch, now and after each import of the module; raise if a required patch cannot be applied."""
        try:
            self._begin()
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def _begin(self) -> None:
        name = self._request.patch.module
        module = None
        if name is not None:
            self._watch = imports.Watch(name, self.arrive)
            module = self._watch.begin() or self._watch.present()
        if name is None or module is not None:
            self._apply(module)

    def apply(self, module: ModuleType | None) -> None:
        """Apply the patch now; raise if a required patch does not fit. ``module``: None for a target without one."""
        try:
            self._apply(module)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def arrive(self, module: ModuleType | None, late: str = "") -> None:
        """Apply the patch to a module executed just now, inside a foreign import.

        ``late``: why the patch of a match is applied at another moment.
        """
        try:
            self._late = late
            self._apply(module, anew=not late)
            for failure in notify.sites_changed(self.touched):
                warn(PatchFailedWarning(str(failure)))
        except HookpatchError as error:
            fail_late(self._next_entry(), self._policy, error, is_late=bool(late))
        finally:
            imports.afterwards(self._ledger.notify)

    def run_anew(self) -> None:
        """Execute the module of a changed source anew, after all patches of the session are applied."""

    def _apply(self, module: ModuleType | None, anew: bool = False) -> None:
        """Apply the patch. ``module``: None for a target without one; ``anew``: the module was executed just now.

        Raises:
            HookpatchError: the patch does not fit, and is required. An optional patch is skipped.
        """
        patch, owner = self._request.patch, self._owner
        try:
            try:
                self._guarded(module, anew)
            except (HookpatchError, HookpatchWarning):  # the user can make a warning an error
                raise
            except Exception as error:
                if is_interrupt(error):
                    raise
                problem = f"the {patch.verb} {raised(error)}{text_of(error)}"
                raise ApplyError(patch.address, owner, problem) from error
        except ApplyError as error:
            if patch.required:
                raise
            self._next_entry().become("skipped", error)

    def _guarded(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch after the checks of its facts, with a warning of each doubt."""
        patch, owner = self._request.patch, self._owner
        self._warnings = guard.unchecked(patch)
        guard.check_patch(patch, self._scope, owner)
        if reason := self._late or imports.how_late(patch.module):
            late = f"applied late: {reason}"
            self._warn(late, f"{patch.address} of {owner}: {late}; code that ran before was not patched", LateWarning)
        self._warn_if_unneeded()
        self._fit(module, anew)

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch to the target, if the patch fits the target."""
        raise NotImplementedError

    def _warn_if_unneeded(self) -> None:
        if (reason := unneeded(self._request.patch, self._owner)) is not None:
            self._warn(reason, f"{self._request.patch.address} of {self._owner}: {reason}", PatchUnneededWarning)

    def _warn(self, reason: str, message: str, kind: type[HookpatchWarning]) -> None:
        self._warnings = (*self._warnings, reason)
        warn(kind(message))

    def _next_entry(self) -> Entry:
        """Return the waiting entry, or a new entry for a module imported more than once."""
        if self._entry.state != "waiting":
            self._entry = self._ledger.open(self._request, again=True)
        return self._entry

    # --- restored, past every error

    def restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        """Restore the patch, past every error; collect the errors, the layers' sites, and values that may be copied."""
        module = str(self._request.patch.module)
        never = f"{module} was never imported"
        if self._entry.state == "waiting" and imports.is_overlooked(module):  # asked before the watch is cancelled
            never = imports.past_us(module)
        if self._watch is not None:
            self._watch.cancel()
        self._ended = True
        if self._entry.state == "waiting":
            self._entry.become("unused", self._entry.reason or never)
        self._restore(errors, touched, copied)

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        """Restore the applied patch; called again after an interrupt."""
        raise NotImplementedError

    def end_source(self, errors: list[Exception]) -> None:
        """Execute the module of a changed source anew, after all patches of the session are restored."""

    def forget(self) -> None:
        """Forget the restored patch. Last: an interrupted restore is repeated."""


def fail_late(entry: Entry, policy: Policy, error: HookpatchError, is_late: bool) -> None:
    """Note that a patch or rule does not fit a module imported just now: warn, or end the program."""
    entry.become("failed", error)
    patch = entry.request.patch
    if patch.required and policy == "exit" and not (is_late or imports.how_late(patch.module)):
        raise refusal(for_stderr(error)) from error
    warn(PatchFailedWarning(f"not patched: {error}"))
