"""Whose turn it is to change a site."""

from __future__ import annotations

from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import Final, final

lock: Final = RLock()  # held to look a site up, and while a child is forked, which waits for all turns to end
_is_forking = False


def before_fork() -> None:
    """Let no turn begin from now on, but for those of this thread."""
    global _is_forking
    lock.acquire()
    _is_forking = True


def after_fork() -> None:
    """Let them begin again."""
    global _is_forking
    _is_forking = False
    lock.release()


@final
class Turn(RLock):  # type: ignore[misc]  # final to typeshed alone; one object less for each patch
    """One thread's at a time, and that thread's only once. Lives as long as its site.

    A finalizer runs in the midst of whatever its thread is doing, and may want to change the very site that is being
    changed: it gets no turn inside the turn, and what it wants is done when that one is over.
    """

    __slots__ = ("_is_taken", "_later")

    def __init__(self) -> None:
        self._is_taken = False
        self._later: deque[Callable[[], None]] | None = None

    def take(self, wait: bool = True) -> bool:
        """Take it, and return True; return False if this thread has it, or if others have and it is not to wait."""
        if _is_forking and wait:
            with lock:
                pass
        if not self.acquire(blocking=wait):
            return False
        if self._is_taken:
            self.release()
            return False
        self._is_taken = True
        return True

    def later(self, change: Callable[[], None]) -> None:
        """Have this done when the turn that this thread has is over."""
        if self._later is None:
            self._later = deque()
        self._later.append(change)

    def end(self) -> None:
        """Give it back, and do what was left for later."""
        self._is_taken = False
        self.release()
        while self._later:
            try:
                change = self._later.popleft()
            except IndexError:  # another thread does it
                return
            change()
