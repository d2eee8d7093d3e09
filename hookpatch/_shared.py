"""Patches of our own, on as long as somebody needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
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
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def settle(self, needed: Callable[[], Collection[str] | None]) -> None:
        """Put on the patches at these targets, and take off all others.

        Args:
            needed: called under the lock; None means that nothing is to be done.
        """
        with self.lock:
            targets = needed()
            if targets is None:
                return
            ended = [one for target in self._there.keys() - {*targets} if (one := self._there.pop(target)).is_open]
            begun = {
                target: _One(Session([self._asked(target)], is_listed=self._are_listed))
                for target in {*targets} - self._there.keys()
            }
            self._there.update(begun)
        for one in ended:
            one.session.close()
        for target, one in begun.items():
            one.session.open()
            with self.lock:
                one.is_open = True
                is_needed = self._there.get(target) is one
            if not is_needed:
                one.session.close()
