"""Finish what an interrupt or a dropped session leaves: undos, parts, and the postponed work of finalizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any, Final, TypeAlias, final
from weakref import ReferenceType

from hookpatch._bootstrap import imports, interrupts
from hookpatch._engine.site.sites import restore_late
from hookpatch._session.ledger import Requested
from hookpatch._session.span.part import SessionPart
from hookpatch._session.span.statement import surplus

interrupts.takers.add(__file__)
# An open session with the undos and the parts that end with the session, and on the fast path the requests.
Listed: TypeAlias = tuple[ReferenceType[Any], list[Callable[[], object]], Sequence[SessionPart], Sequence[Requested]]
# By number. A dropped session closes itself; after an interrupt the next look at the patches closes it. GIL: each
# change and each copy is one operation.
opened: Final[dict[int, Listed]] = {}
# References to collected sessions, which may have left patches.
dead: Final[list[object]] = []
note_dead: Final = dead.append
postponed: Final[list[_Postponed]] = []
looks: Final[list[Callable[[], object]]] = []  # called at each look, to restore what foreign code has put back


@final
class _Postponed:
    """The work of a finalizer that ran in the middle of a change.

    Done when the object is dropped: Python reports an error as the error of a finalizer.
    """

    __slots__ = ("_act",)

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Final = act

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        if not is_ending():
            self._act()


def do_or_postpone(act: Callable[[], object]) -> None:
    """Do the work of a finalizer, the caller; after the change if the finalizer runs in the middle of a change."""
    if interrupts.may_hold_a_lock(_getframe(1).f_back):
        postponed.append(_Postponed(act))
    else:
        act()


def finish_postponed() -> None:
    """Do the postponed work of finalizers, after each opening and closing."""
    while postponed:
        postponed.pop()


def finish_interrupted() -> None:
    """Finish interrupted openings and closings of sessions, and finalizers of dropped sessions."""
    interrupts.finish_interrupted()
    finish_postponed()
    while dead or has_lost():
        for number, (weak, undos, parts, requests) in opened.copy().items():
            if (session := weak()) is not None:
                session.end_lost_entrances()
            else:
                for request in requests:
                    if (preparation := request.patch._prepared) is not None and preparation.number == number:
                        preparation.undo(number)
                call_undos(undos)
                for also in parts:
                    also.end(number)
                opened.pop(number, None)
        dead.clear()


def has_lost() -> bool:
    """Return True if an open session has the entrance of a with statement that an interrupt kept from leaving."""
    for listed in [*opened.values()]:
        session = listed[0]()
        if session is not None and session._has_statements and surplus(session) < 0:
            return True
    return False


def call_undos(undos: list[Callable[[], object]]) -> None:
    """Call all undos, the last first; an undo is removed after its call: an interrupted undo is repeated."""
    while undos:
        undo = undos[-1]
        undo()
        try:
            undos.remove(undo)
        except ValueError:  # another thread has removed the undo
            continue


def look_again() -> None:
    """Apply patches to modules imported without notice, and restore what foreign code has put back."""
    finish_interrupted()
    imports.notify_late()
    restore_late()
    for look in looks:
        look()
