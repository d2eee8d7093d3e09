"""A lock for changes: one thread at a time changes a slot. A finalizer may want a change in the middle of another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from sys import _getframe
from types import FrameType
from typing import Final, final

from hookpatch._bootstrap.interrupts import Operation, Turn, begin, finish, takers

lock: Final = Turn()  # held to look a site up, and during a fork, which waits until no thread changes a site
_is_forking = False


def before_fork(frame: FrameType) -> None:
    """Keep other threads from taking the lock of any site, while a frame forks."""
    global _is_forking
    lock.acquire_for(frame)
    _is_forking = True


def after_fork(frame: FrameType) -> None:
    """Let all threads take the locks of sites again."""
    global _is_forking
    _is_forking = False
    lock.release_for(frame)


@final
class SiteLock(Turn):
    """The lock of a site, which a thread cannot take twice. Lives as long as its site.

    A finalizer can run in the middle of a change and want to change the same site. The lock refuses the finalizer,
    whose change is done when the thread releases the lock.
    """

    __slots__ = ("_later",)

    def __init__(self) -> None:
        super().__init__()
        self._later: deque[Operation] | None = None

    def take_turn(self, wait: bool = True) -> bool:
        """Return True if the lock was taken for the calling function until ``end``.

        False if this thread has the lock, or if another thread has the lock and ``wait`` is False.
        """
        if _is_forking and wait:
            with lock:
                pass
        frame = _getframe(1)
        takers.add(frame.f_code.co_filename)
        return self.acquire_for(frame, until=None if wait else 0)

    def later(self, change: Callable[[], None]) -> None:
        """Postpone a change until this thread releases the lock; after an interrupt, until the next look."""
        if self._later is None:
            self._later = deque()
        self._later.append(begin(change, self._holder().frame or _getframe(1)))

    def end(self) -> None:
        """Release the lock, and do the postponed changes."""
        self.release_for(_getframe(1))
        while self._later:
            try:
                change = self._later.popleft()
            except IndexError:  # another thread took the last change
                return
            finish(change)
