"""Survive an interrupt: Ctrl-C, a signal handler that raises, at any instruction of our own code.

An interrupted function leaves its frame, and that can be seen afterwards: a lock or an operation notes the frame that
began it, before the first act, and who finds a frame that runs no longer takes the lock, or finishes the operation.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, Final

_PAUSES: Final = (0.0, 0.00005, 0.0002, 0.001, 0.005)  # seconds, while another thread has a lock


def is_running(frame: FrameType, thread: int) -> bool:
    """Return True if a frame is still on the stack of its thread."""
    running = sys._getframe(1) if thread == get_ident() else sys._current_frames().get(thread)
    while running is not None and running is not frame:
        running = running.f_back
    return running is not None


def is_interrupt(error: BaseException) -> bool:
    """Return True if an error was raised by a signal handler, whatever code was running; KeyboardInterrupt always."""
    if not isinstance(error, (Exception, SystemExit)):
        return True
    import signal  # after an error alone

    handlers: list[Any] = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers]
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


class _Holder(dict):  # type: ignore[type-arg]
    """One who takes a lock. ``frame`` is None once the lock is released; the entry is the next holder."""

    __slots__ = ("frame", "thread")
    frame: FrameType | None
    thread: int


class Turn:
    """A lock that belongs to a running frame: a frame that was interrupted holds nothing.

    The holders are a list: each notes the next in one operation of a dict (GIL), so that two never have the lock. In a
    ``with`` statement a thread that has the lock already goes on, as with an RLock.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = _Holder()
        self._last.frame, self._last.thread = None, 0

    def take_for(self, frame: FrameType, until: float | None = None) -> bool:
        """Take the lock for a frame of this thread; return False if this thread has the lock.

        ``until``: the moment of ``time.monotonic`` from which on to wait for other threads no longer, and return False.
        """
        mine = _Holder()
        mine.frame, mine.thread = frame, get_ident()
        last, waited = self._last, 0
        while True:
            holder = last.frame
            if holder is None:  # released
                following = last.setdefault(None, mine)
                if following is mine:
                    self._last = mine
                    return True
                last = following
            elif not is_running(holder, last.thread):
                last.frame = None
            elif last.thread == mine.thread or (until is not None and monotonic() >= until):
                return False
            else:
                sleep(_PAUSES[min(waited // 8, len(_PAUSES) - 1)])
                waited += 1

    def release_for(self, frame: FrameType) -> None:
        """Release the lock if this frame has taken it."""
        last = self._last
        if last.frame is frame:
            last.frame = None

    def __enter__(self) -> None:
        self.take_for(sys._getframe(1))

    def __exit__(self, *_: object) -> None:
        self.release_for(sys._getframe(1))

    def acquire(self) -> None:
        """Take the lock before a fork, for the frame that forks."""
        self.take_for(sys._getframe(1))

    def release(self) -> None:
        """Release the lock after a fork."""
        self.release_for(sys._getframe(1))


class Operation:
    """What has begun and may be interrupted. ``finish`` ends it in any state, and may be called again.

    ``frame`` is None once it has ended.
    """

    __slots__ = ("finish", "frame", "thread")

    def __init__(self, finish: Callable[[], None], frame: FrameType) -> None:
        self.finish: Final = finish
        self.frame: FrameType | None = frame
        self.thread = get_ident()


# GIL: changed and copied in one operation each.
_operations: Final[dict[Operation, None]] = {}


def begin(finish: Callable[[], None]) -> Operation:
    """Note an operation of the calling function before its first act; ``finish`` is called if it is interrupted."""
    operation = Operation(finish, sys._getframe(1))
    _operations[operation] = None
    return operation


def end(operation: Operation) -> None:
    """Note that an operation has ended."""
    _operations.pop(operation, None)
    operation.frame = None  # which holds the operation in a variable


def finish_interrupted() -> None:
    """Finish all operations whose functions run no longer. Called before each look at patches."""
    for operation in list(_operations):
        frame = operation.frame
        # In this order: an operation that ended is forgotten before its frame ends.
        if frame is not None and not is_running(frame, operation.thread) and operation in _operations:
            operation.thread, operation.frame = get_ident(), sys._getframe()
            operation.finish()
            end(operation)
