"""A lock for changes that a finalizer may want in the middle of another: one thread at a time changes a slot."""

from __future__ import annotations

from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import Final, final

lock: Final = RLock()  # held to look a site up, and during a fork, which waits until no thread changes a site
_is_forking = False


def before_fork() -> None:
    """Keep other threads from taking the lock of any site."""
    global _is_forking
    lock.acquire()
    _is_forking = True


def after_fork() -> None:
    """Let all threads take the locks of sites again."""
    global _is_forking
    _is_forking = False
    lock.release()


@final
class SiteLock(RLock):  # type: ignore[misc]  # final to typeshed alone; an object less for each patch
    """The lock of a site, which a thread cannot take twice. Lives as long as its site.

    A finalizer can run in the middle of a change and want to change the same site. The lock refuses the finalizer,
    whose change is done when the thread releases the lock.
    """

    __slots__ = ("_is_taken", "_later")

    def __init__(self) -> None:
        self._is_taken = False
        self._later: deque[Callable[[], None]] | None = None

    def take(self, wait: bool = True) -> bool:
        """Return True if the lock was taken; False if this thread has it, or if another has it and wait is False."""
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
        """Postpone a change until this thread releases the lock."""
        if self._later is None:
            self._later = deque()
        self._later.append(change)

    def end(self) -> None:
        """Release the lock, and do the postponed changes."""
        self._is_taken = False
        self.release()
        while self._later:
            try:
                change = self._later.popleft()  # GIL: one operation, so no change is done by two threads
            except IndexError:  # another thread took the last change
                return
            change()
