"""Open a session with locks: all patches are applied or none. Restore all of them, also after an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import _getframe
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from hookpatch._bootstrap import environment, interrupts
from hookpatch._bootstrap.interpreters import other_interpreters
from hookpatch._plugins import notify
from hookpatch._session import task
from hookpatch._session.additions import additions, behind_additions
from hookpatch._session.ledger import Ledger
from hookpatch._session.lifecycle.everywhere import look_for_holders
from hookpatch._session.lifecycle.kinds import lifecycle_of
from hookpatch._session.lifecycle.lifecycle import Lifecycle
from hookpatch._session.span.leftovers import call_undos, finish_postponed, look_again, note_dead, opened
from hookpatch._session.span.state import SessionState, end_lifecycles, numbers
from hookpatch._session.span.statement import Statement, last_entrance, surplus
from hookpatch.errors import MatchesError, SessionError, TargetNotFound

if TYPE_CHECKING:
    from hookpatch._session.rules import Rule

interrupts.takers.add(__file__)
_PATIENCE: Final = 60  # seconds, while another thread opens or closes the session


class OpeningSession(SessionState):
    """A session that one thread at a time opens or closes."""

    def _enter(self, entrance: object) -> None:
        if self._state != "open":
            look_again()
        self._in_turn(entrance, partial(self._open_or_count, entrance))

    # --- in turn: one thread at a time

    def _in_turn(self, entrance: object, act: Callable[[], None]) -> None:
        """Open or close the session while no other thread does; leave if ``act`` is interrupted."""
        operation = interrupts.begin(partial(self._give_up, entrance))
        try:
            if self._take_turn(_getframe()):
                act()
        except BaseException as error:
            # SessionError: another thread has the turn, or the restored patches received too few calls.
            if not isinstance(error, SessionError):
                self._give_up(entrance)  # interrupted again: the operation stays, and the next look calls this
            self._end_turn(_getframe(), operation)
            raise
        self._end_turn(_getframe(), operation)

    def _end_turn(self, frame: FrameType, operation: interrupts.Operation) -> None:
        self._turn.release_for(frame)
        interrupts.end(operation)
        finish_postponed()

    def _take_turn(self, frame: FrameType) -> bool:
        """Take the turn to open or close; return False for a call amid an opening or closing, from foreign code."""
        if self._turn.acquire_for(frame, until=monotonic() + _PATIENCE):
            return True
        if self._turn.belongs_to_thread:
            return False
        raise SessionError(
            f"{self!r} cannot be entered or left now: another thread has been at it for {_PATIENCE} s; it may wait for "
            "this thread, as for the import of a module; open another session, made by active()"
        )

    def _give_up(self, entrance: object) -> None:
        """End an entrance after an interrupt; if interrupted again, the next look repeats the call."""
        again = interrupts.begin(partial(self._give_up, entrance))
        self._take_turn(_getframe())
        try:
            self._leave(entrance)
        finally:
            self._turn.release_for(_getframe())
        interrupts.end(again)

    def end_lost_entrances(self) -> None:
        """End the entrances of with statements that an interrupt kept from doing so."""
        while surplus(self) < 0:
            self._give_up(last_entrance(self._entrances, is_statement=True))

    # --- opened

    def _open_or_count(self, entrance: object) -> None:
        try:
            if self._state in ("opening", "closing"):  # interrupted
                self._restore()
            self._entrances[entrance] = self if type(entrance) is Statement else None
            if self._state != "open":
                self._open()
            elif self._scope == "task":
                task.begin(self._number)
        except BaseException as error:
            self._leave(entrance)
            for failure in self._errors:
                error.add_note(f"and while the applied patches were restored: {type(failure).__name__}: {failure}")
            raise

    def _open(self) -> None:
        self._written = ledger = Ledger(self._references)
        self._state = "opening"
        self._errors.clear()
        self._apply_patches(ledger)
        self._state = "open"
        if self._is_listed:
            opened[self._number] = ref(self, note_dead), self._undos, self._also, ()
        ledger.notify()

    def _apply_patches(self, ledger: Ledger) -> None:
        self._plain = other_interpreters()
        self._number = number = next(numbers)
        lifecycles = [self._lifecycle(place, request, ledger) for place, request in enumerate(self._requests)]
        if not environment.asks_nothing_of_blocks() and environment.disabled():
            for lifecycle in lifecycles:
                lifecycle.skip(f"{environment.DISABLE} is set")
            return
        if self._scope == "task":
            lifecycles += [lifecycle_of(request, (number,), ledger, self._policy) for request in task.CARRIERS]
        for also in self._also:
            self._undos.append(partial(also.end, number))
            also.begin(number)
        values: list[Any] = []
        self._rules = [lifecycle for lifecycle in lifecycles if not isinstance(lifecycle, Lifecycle)]
        added_by = additions([request.patch for request in self._requests]) if len(self._requests) > 1 else {}
        for place, lifecycle in enumerate(lifecycles if len(lifecycles) > 1 or self._rules else ()):
            try:
                values += lifecycle.check()  # all before the first is applied; a single patch is checked when applied
            except (TargetNotFound, MatchesError):
                if place not in added_by:
                    raise
                lifecycle.await_addition()  # for the patch that may add the name; then the site decides
        if len(values) > 1:
            look_for_holders(ledger, values)
        values.clear()  # a filled list would be a holder, too
        if self._scope == "task":
            self._undos.append(partial(task.end, number))
            task.begin(number)
        begun: list[Lifecycle | Rule] = []
        self._undos.append(partial(end_lifecycles, begun, {}, ledger, self._errors))
        for lifecycle in behind_additions(lifecycles, added_by) if added_by else lifecycles:
            begun.append(lifecycle)
            lifecycle.begin()
        for lifecycle in lifecycles:
            if isinstance(lifecycle, Lifecycle):
                lifecycle.run_anew()
        ledger.forget_looks()
        for error in notify.sites_changed(site for lifecycle in lifecycles for site in lifecycle.touched):
            raise error

    # --- restored

    def _leave(self, entrance: object) -> None:
        """End an entrance: the last restores the patches."""
        if self._state == "open" and len(self._entrances) > 1:
            self._entrances.pop(entrance, None)
        elif entrance in self._entrances:
            self._restore()

    def _restore(self) -> None:
        """Restore the applied patches; may be called again after an interrupt."""
        if self._is_fast:
            self.make_entries()
        self._state = "closing"
        call_undos(self._undos)
        self._ledger.forget_looks()
        self._is_fast = self._is_prepared = False
        opened.pop(self._number, None)
        self._state = "closed"
        self._entrances.clear()
