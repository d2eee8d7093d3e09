"""Patches of our own, on as long as somebody needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Set
from threading import RLock
from typing import Final, final

from hookpatch._ledger import Asked
from hookpatch._session import Session


@final
class _One:
    """A session, and whether whoever opens it has done so: it is never closed while it is being opened."""

    def __init__(self, session: Session) -> None:
        self.session: Final = session
        self.is_open = False


@final
class Shared:
    """Sessions of one patch each, by its target. Any thread may change what is needed, at any time."""

    def __init__(self, asked: Callable[[str], Asked], are_listed: bool) -> None:
        """Make one.

        Args:
            asked: gives the patch for a target.
            are_listed: True if the report of all sessions has them.
        """
        self._are_listed: Final = are_listed
        self.lock: Final = RLock()  # not held while patches are put on
        self._asked: Final = asked
        self._there: Final[dict[str, _One]] = {}
        self._is_settling = False
        self._is_stale = False
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def settle(self, needed: Callable[[], Set[str]]) -> None:
        """Put on the patches at these targets, and take off all others; ``needed`` is called under the lock."""
        ended: list[_One] = []
        begun: dict[str, _One] = {}
        with self.lock:
            if not self._is_settling and needed() == self._there.keys():
                return  # mostly
            self._is_stale = True
            while self._is_stale and not self._is_settling:  # called by a finalizer, in the midst of this: once more
                self._is_settling = True
                try:
                    self._is_stale = False
                    targets = needed()
                    ended += [self._there.pop(target) for target in self._there.keys() - targets]
                    for target in targets - self._there.keys():
                        one = _One(Session([self._asked(target)], is_listed=self._are_listed))
                        begun[target] = self._there[target] = one
                finally:
                    self._is_settling = False
            ended = [one for one in ended if one.is_open]
        for one in ended:
            one.session.close()
        for target, one in begun.items():
            one.session.open()
            with self.lock:
                one.is_open = True
                is_needed = self._there.get(target) is one
            if not is_needed:
                one.session.close()
