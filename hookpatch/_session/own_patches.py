"""Hookpatch's own patches, on torch, on the start of processes and on pydoc: applied only while needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Sequence, Set
from functools import cache, partial
from threading import get_ident
from typing import Any, Final, final

from hookpatch._bootstrap import imports, interrupts
from hookpatch._engine.patch.patch import wrap
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import patched
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._plugins import notify
from hookpatch._session.ledger import Requested
from hookpatch._session.session import Session
from hookpatch._session.span.part import Pairs


@final
class OwnPatches:
    """Sessions of one patch each, by target. Any thread may change the needed targets, at any time."""

    def __init__(self, request_for: Callable[[str], Requested], are_listed: bool) -> None:
        """Take a function that returns the patch for a target; ``are_listed``: reports contain the patches."""
        self._are_listed: Final = are_listed
        self.lock: Final = SiteLock()  # not held while patches are applied
        # The same patch each time: sessions keep prepared results with a patch.
        self._request_for: Final = cache(request_for)
        self.sessions: Final[dict[str, Session]] = {}  # by target, while the patch is applied
        self._again: Final[dict[str, Session]] = {}  # by target: to be entered again on the fast path
        # By session, the thread that opens the session now: no other closes it. GIL: a change is one operation.
        self._opening: Final[dict[Session, int]] = {}
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def update(self, needed: Callable[[], Set[str]]) -> None:
        """Apply the patches at the needed targets, and restore all others.

        ``needed`` is called under the lock, and never during another call of ``needed``: not even by a finalizer.
        """
        if not self.lock.take_turn():
            return self.lock.later(partial(self.update, needed))
        try:
            targets = needed()
            if targets == self.sessions.keys() and not self._opening:
                return None  # the usual case
            ended: list[Session] = []
            begun: dict[str, Session] = {}
            awaited: dict[str, Session] = {}
            operation = interrupts.begin(partial(self._finish, needed, ended, begun, awaited))
            for target in self.sessions.keys() - targets:
                ended.append(self.sessions[target])
                self._again[target] = self.sessions[target]
                del self.sessions[target]
            # Another thread may take its time to apply a needed patch: the patch is applied by this thread, too. An
            # opening below calls ``update`` for a site of hookpatch's own, which needs no patch and does not wait.
            if get_ident() not in self._opening.values():
                opening = [(target, session) for target, session in self.sessions.items() if session in self._opening]
                awaited.update(opening)
            for target in targets - self.sessions.keys():
                session = Session([self._request_for(target)], is_listed=self._are_listed)
                begun[target] = self.sessions[target] = session
            self._opening.update(dict.fromkeys(begun.values(), get_ident()))
            ended[:] = [session for session in ended if session not in self._opening]
        finally:
            self.lock.end()
        for session in ended:
            session.end()
        for target, session in (*begun.items(), *awaited.items()):
            session.open()
            with self.lock:
                if target in begun:
                    self._opening.pop(session, None)
                is_needed = self.sessions.get(target) is session
            if not is_needed:
                session.end()
        interrupts.end(operation)
        return None

    def begin_again(self, targets: Iterable[str]) -> bool:
        """Apply the patches at more targets; return False if a patch needs a lock. On the fast path.

        ``end_again`` restores all patches begun here, also after a failure in the middle.
        """
        for target in targets:
            if target not in self.sessions:
                session = self._again.get(target)
                if session is None or self._opening:
                    return False
                self.sessions[target] = session
                if not session.begin_again(self):
                    del self.sessions[target]
                    return False
        return True

    def may_end_again(self, needed: Container[str]) -> bool:
        """Return True if ``end_again`` can restore all patches except at the needed targets. Asked on the fast path."""
        ended = [session for target, session in self.sessions.items() if target not in needed]
        return not self._opening and all(session.may_give_up_again() for session in ended)

    def end_again(self, needed: Container[str]) -> bool:
        """Restore all patches except at the needed targets; return False if one needs a lock. On the fast path."""
        is_done = True
        for target, session in [*self.sessions.items()]:
            if target not in needed:
                if session.give_up_again():
                    del self.sessions[target]
                else:
                    is_done = False  # the others end all the same: an interrupted opening ends only here
        return is_done

    def of_blocks(self, targets: Set[str]) -> tuple[Pairs, Callable[[int], object]] | None:
        """Return the patches at targets for blocks that apply these without notes, and the function that notes these.

        None if such a patch is not applied on the fast path now.
        """
        sessions = {target: self.sessions[target] for target in targets & self.sessions.keys()}
        pairs = [pair for session in sessions.values() for pair in session.pairs()]

        def note(number: int) -> None:
            for target, session in sessions.items():
                if session.take_over(number, self):
                    self.sessions[target] = session

        return None if self._opening or len(pairs) < len(targets) else (pairs, note)

    def _finish(
        self,
        needed: Callable[[], Set[str]],
        ended: list[Session],
        begun: dict[str, Session],
        awaited: dict[str, Session],
    ) -> None:
        """Finish an interrupted update."""
        for session in begun.values():
            self._opening.pop(session, None)
        for session in (*ended, *begun.values()):
            session.end()
        for target, session in begun.items():
            if self.sessions.get(target) is session:
                del self.sessions[target]
        for target, session in awaited.items():
            if self.sessions.get(target) is not session:
                session.end()
        self.update(needed)


# --- help() of a wrapped class: pydoc asks `type` for the subclasses, which takes no proxy

_PYDOC: Final = "pydoc"
_HELP: Final = f"{_PYDOC}:TextDoc.docclass"


def _is_proxy_of_class(value: object) -> bool:
    return is_proxy(value) and isinstance(value, type)


def _help_of_class(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    documented, *others = args
    return wrapped(documented.__wrapped__ if _is_proxy_of_class(documented) else documented, *others, **kwargs)


def _help_needed() -> set[str]:
    is_needed = imports.begun(_PYDOC) and any(_is_proxy_of_class(site.value) for site in patched())
    return {_HELP} if is_needed else set()


def _update_help(sites: Sequence[Site]) -> None:
    if _help.sessions or (imports.begun(_PYDOC) and any(_is_proxy_of_class(site.value) for site in sites)):
        _help.update(_help_needed)


_of_help: Final = wrap(_HELP, _help_of_class, why="help() shows a class in place of its proxy", required=False)
_help: Final = OwnPatches(lambda _: Requested(_of_help, "hookpatch", "hookpatch"), are_listed=False)
notify.own.append(_update_help)
imports.listen(_PYDOC, lambda _: _help.update(_help_needed))
