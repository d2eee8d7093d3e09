"""With statements, counted by the references to a session's exit: each statement holds one until its end.

An interrupt may keep ``__exit__`` from its first instruction, and a traceback may keep all frames, as in a notebook.
The statement drops its reference all the same: the next look at the patches finds an entrance without a statement.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from sys import _getframe, getrefcount
from time import time
from types import FrameType
from typing import Any, Final, final
from weakref import ReferenceType

from hookpatch._bootstrap import interrupts
from hookpatch._bootstrap.interrupts import fast_path, first_of

interrupts.takers.add(__file__)


@final
class Statement:
    """The entrance of a with statement."""

    __slots__ = ()


STATEMENT: Final = Statement()  # on the fast path, where a session has one entrance


@final
class SessionClass(type):
    """The class of the class of sessions: contextlib.ExitStack asks the class before Python 3.15, a statement does not.

    The stack does not hold the exit: it opens and closes the session.
    """

    @property
    def __enter__(cls) -> Any:
        return vars(cls)["open"]

    @property
    def __exit__(cls) -> Any:
        return vars(cls)["_leave_block"]


# No function of Python, whose frame would hold the exit: a traceback would keep the frame. No slot: from Python 3.13 on
# the other attributes would be read from a dict.
exit_of_session: Final = property(attrgetter("_on_exit"))


def leave(
    weak: ReferenceType[Any],
    entrances: dict[object, Any],
    entrance: object,
    kind: object = None,
    error: object = None,
    traceback: object = None,
) -> None:
    """Leave a session, on the fast path if possible; not a method, which the exit would call in a frame more."""
    session = entrances.get(entrance) or weak()
    if session is None:  # ended inside the statement, and dropped
        return
    moment = time()  # as in ``Session._enter_again``
    if session._is_fast and first_of(None, (_getframe(), session, entrance, moment))[3] is moment:
        try:
            is_closed = session._take_values(entrance, moment) or session._end_with_notes(entrance)
        except BaseException:
            session.finish(entrance)
            del fast_path[None]
            raise
        del fast_path[None]
        if is_closed:
            return
    session._close(kind is None, entrance is STATEMENT)


# --- counted


def surplus(session: Any) -> int:
    """Return the number of with statements without an entrance; negative for entrances without a statement."""
    without = getrefcount(session._on_exit) - IDLE
    for entrance in [*session._entrances]:  # no generator: this is measured
        without -= type(entrance) is Statement
    return without


def holds_exit(frame: FrameType, session: Any) -> bool:
    """Return True if a frame that enters a session holds the exit: then an earlier statement has not left."""
    from opcode import opname  # after an interrupt, or beside another statement of the session

    code = frame.f_code.co_code
    present, before = (opname[code[place]] for place in (frame.f_lasti, frame.f_lasti - 2))
    if present == "BEFORE_WITH" or before == "LOAD_SPECIAL":  # on Python 3.14 and later before a call
        return True
    # contextlib.ExitStack, from Python 3.15 on. Before 3.13 ``f_locals`` would be a copy that lives on.
    return sys.version_info >= (3, 13) and any(value is session._on_exit for value in frame.f_locals.values())


class _Idle:
    def __init__(self) -> None:
        self._on_exit = partial(leave)
        self.references = getrefcount(self._on_exit)  # by the expression of ``surplus``


IDLE: Final = _Idle().references  # to an exit without a statement


def last_entrance(entrances: Iterable[object], is_statement: bool) -> object:
    """Return the last entrance of a with statement or of an ``open``, or else the last; None without entrances."""
    entrances = [*entrances]  # a copy: other threads enter and leave
    of_kind = [entrance for entrance in entrances if (type(entrance) is Statement) is is_statement]
    return (None, *entrances, *of_kind)[-1]
