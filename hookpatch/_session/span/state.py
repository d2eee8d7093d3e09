"""The state of a session, with its lifecycles and its ledger: made at the opening, or on demand after the fast path."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from hookpatch._bootstrap import imports, interrupts
from hookpatch._bootstrap.interrupts import Turn, fast_path
from hookpatch._engine.patch.patch import Scope
from hookpatch._engine.site.site import Site
from hookpatch._plugins import notify
from hookpatch._session.ledger import Ledger, Requested, references
from hookpatch._session.lifecycle.everywhere import restore_copies
from hookpatch._session.lifecycle.kinds import lifecycle_of
from hookpatch._session.lifecycle.lifecycle import Formers, Lifecycle, Policy
from hookpatch._session.lifecycle.slots import SlotLifecycle
from hookpatch._session.span.leftovers import Listed
from hookpatch._session.span.part import Ready, SessionPart
from hookpatch._session.span.statement import STATEMENT, leave

if TYPE_CHECKING:
    from hookpatch._engine.lock.drift import Drift  # slow to import, and most sessions have no lock file
    from hookpatch._session.rules import Rule

interrupts.takers.add(__file__)
numbers: Final = itertools.count(1)
NO_INTERPRETERS: Final[frozenset[int]] = frozenset()


class SessionState:
    """The arguments of a session, and how far the session has come."""

    def __init__(
        self,
        requests: Sequence[Requested],
        policy: Policy = "warn",
        scope: Scope = "process",
        count: bool = False,
        also: Sequence[SessionPart] = (),
        is_listed: bool = True,
        drift: Drift | None = None,
    ) -> None:
        self._requests: Final = tuple(requests)
        self._references: Final[dict[int, int | None]] = {}
        for request in requests:  # no comprehension: this is measured
            if request.patch.verb == "replace":
                self._references[id(request)] = references(request.patch)
        self._also: Final = tuple(also)
        self._is_listed: Final = is_listed  # False for some of hookpatch's own patches
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._may_stay_new = not requests  # False while a drop without opening would be a mistake
        self._number = 0  # set by open
        self._plain: frozenset[int] = NO_INTERPRETERS  # other interpreters of this process, made before the session
        self._written: Ledger | None = None  # see ``_ledger``
        self._state = "new"
        self._turns: Final[dict[None, Turn]] = {}  # see ``_turn``
        self._is_simple: Final = bool(requests) and scope == "process" and not count and drift is None
        self._is_prepared = False  # True after a block on the fast path, if the patches keep what was prepared
        self._is_fast = False  # True while open as the fast path has opened the session
        self._opened_at = self._closed_at = 0.0  # on the fast path
        # In order; the session is open while not empty. The entrance of a with statement leads to the session.
        self._entrances: Final[dict[object, object]] = {}
        self._has_statements = False  # True once a with statement has entered the session
        # Keeps the session as long as a with statement is an entrance.
        self._on_exit: Final = partial(leave, ref(self), self._entrances, STATEMENT)
        self._undos: Final[list[Callable[[], object]]] = []  # each noted before its act; the last comes first
        self._listed: Listed | None = None  # made on the fast path, and used again
        self._ready: Ready | None = None  # None if a block has to write notes
        self._write_notes: Any = None  # a function of the number, made with ``_ready``
        self._errors: Final[list[Exception]] = []
        self._rules: Sequence[Rule] = ()  # of the last opening

    @property
    def _turn(self) -> Turn:
        """The lock held while the session is opened or closed; made at the first use."""
        return self._turns.get(None) or self._turns.setdefault(None, Turn())  # GIL: one operation

    @property
    def _ledger(self) -> Ledger:
        """The entries of the session's patches; a session opened on the fast path writes them at the first use."""
        if self._written is None:
            self.make_entries()
        return self._written or Ledger()  # empty in the midst of a change by this thread

    def make_entries(self) -> None:
        """Make the lifecycles and entries of a session opened on the fast path, as an opening with locks does."""
        if not interrupts.take_fast_path(_getframe(), interrupts.reader):
            return  # in the midst of a change by this thread
        try:
            if self._written is None:
                self._write()
        finally:
            del fast_path[None]

    def _write(self) -> None:
        ledger, number = Ledger(self._references), self._number
        requests = self._requests if number else ()
        lifecycles = [self._lifecycle(place, request, ledger) for place, request in enumerate(requests)]
        preparations = [
            preparation
            for request in (self._requests if self._is_fast else ())
            if (preparation := request.patch._prepared) is not None
        ]
        for lifecycle, preparation in zip(lifecycles, preparations, strict=False):
            if isinstance(lifecycle, SlotLifecycle):  # no other kind is opened on the fast path
                lifecycle.adopt(preparation, self._opened_at)
        if self._is_fast:
            ends = [partial(also.end, number) for also in self._also]
            self._undos[:] = [*ends, partial(end_lifecycles, lifecycles, {}, ledger, self._errors)]
        for entry in ledger.entries if self._state == "closed" else ():
            entry.state, entry.applied_at, entry.ended_at = "restored", self._opened_at, self._closed_at
        self._written, self._is_fast = ledger, False
        for preparation in preparations:
            preparation.hand_over()

    def _lifecycle(self, place: int, request: Requested, ledger: Ledger) -> Lifecycle | Rule:
        """Return the lifecycle of the patch or rule at a place in the order of the session."""
        rank = self._number, -place
        if not request.patch.is_rule:
            return lifecycle_of(request, rank, ledger, self._policy, self._scope, self._count, self._drift)
        with imports.for_ourselves():
            from hookpatch._session.rules import Rule  # most sessions have no rule

        # Without a reference to the session: else a dropped session would not be closed at once.
        of_session = partial(lifecycle_of, rank=rank, ledger=ledger, policy=self._policy, scope=self._scope)
        return Rule(request, ledger, self._policy, partial(of_session, count=self._count, drift=self._drift))


def end_lifecycles(
    lifecycles: Sequence[Lifecycle | Rule], copied: Formers, ledger: Ledger, errors: list[Exception]
) -> None:
    """End all lifecycles, the last first; notify plugins."""
    # A single undo for all lifecycles: an undo for each would be ten objects more for the collector.
    touched: list[Site] = []
    for lifecycle in reversed(lifecycles):
        lifecycle.restore(errors, touched, copied)
    for watch in ledger.library.values():
        watch.cancel()
    for lifecycle in reversed(lifecycles):
        if isinstance(lifecycle, Lifecycle):
            lifecycle.end_source(errors)
    if copied:
        restore_copies(copied, ledger.imported_before, errors)
    errors.extend(notify.sites_changed(touched))
    for lifecycle in lifecycles:
        lifecycle.forget()
