"""Hookpatch's own patches, such as those on torch: applied while they are needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Set
from threading import RLock
from typing import Final, final

from hookpatch._session.ledger import Requested
from hookpatch._session.session import Session


@final
class OwnPatches:
    """Sessions of one patch each, by target. Any thread may change the needed targets, at any time."""

    def __init__(self, asked: Callable[[str], Requested], are_listed: bool) -> None:
        """Take a function that returns the patch for a target; ``are_listed``: the report of all sessions has them."""
        self._are_listed: Final = are_listed
        self.lock: Final = RLock()  # not held while patches are applied
        self._asked: Final = asked
        self._sessions: Final[dict[str, Session]] = {}
        self._opening: Final[set[Session]] = set()  # being opened by a thread, so closed by no other
        self._is_changing = False
        self._is_stale = False
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def update(self, needed: Callable[[], Set[str]]) -> None:
        """Apply the patches at the needed targets, and restore all others.

        ``needed`` is called under the lock, and never while another call of it runs: not even by a finalizer.
        """
        ended: list[Session] = []
        begun: dict[str, Session] = {}
        with self.lock:
            self._is_stale = True
            while self._is_stale and not self._is_changing:  # again, if a finalizer has called update meanwhile
                self._is_changing = True
                try:
                    self._is_stale = False
                    if (targets := needed()) == self._sessions.keys():
                        continue  # mostly
                    ended += [self._sessions.pop(target) for target in self._sessions.keys() - targets]
                    for target in targets - self._sessions.keys():
                        session = Session([self._asked(target)], is_listed=self._are_listed)
                        begun[target] = self._sessions[target] = session
                finally:
                    self._is_changing = False
            self._opening.update(begun.values())
            ended = [session for session in ended if session not in self._opening]
        for session in ended:
            session.close()
        for target, session in begun.items():
            session.open()
            with self.lock:
                self._opening.discard(session)
                is_needed = self._sessions.get(target) is session
            if not is_needed:
                session.close()
