"""The session: the time in which patches are in effect. All patches are applied or none, and all are restored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Sequence
from functools import wraps
from sys import _getframe, getrefcount
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, final
from weakref import ref

from hookpatch._bootstrap import imports, interrupts
from hookpatch._bootstrap.interpreters import other_interpreters
from hookpatch._session import task
from hookpatch._session.ledger import Entry
from hookpatch._session.span.closing import ClosingSession
from hookpatch._session.span.leftovers import do_or_postpone, look_again, opened
from hookpatch._session.span.statement import (
    IDLE,
    STATEMENT,
    SessionClass,
    Statement,
    exit_of_session,
    holds_exit,
    leave,
    surplus,
)
from hookpatch.errors import NeverOpenedWarning, SessionError, warn

if TYPE_CHECKING:
    from hookpatch._session.report import PatchReport, Report

P = ParamSpec("P")
R = TypeVar("R")

interrupts.takers.add(__file__)
_BLOCK: Final = "a block"  # the entrance of ``open`` on the fast path


@final
class Session(ClosingSession, metaclass=SessionClass):
    """The time in which patches are in effect; returned by ``active``.

    Entering applies all patches or none. Closing restores all patches. A session can be entered again, also by other
    threads and while the session is open: the session counts its entrances, and the last end restores the patches.
    A session dropped unclosed raises a ``ResourceWarning`` and is closed. All calls of a decorated function enter the
    same session.
    """

    def open(self) -> Session:
        """Apply the patches of all imported modules, wait for the other modules; return the session.

        An open session is entered once more, by any thread: the last of as many closings restores the patches.

        Raises:
            HookpatchError: a required patch cannot be applied; the patches applied before are restored.
            SessionError: another thread has been opening or closing the session for a minute.
        """
        before, entrance = self._number, object()
        try:
            if not self._enter_again(_BLOCK):
                self._enter(entrance)
            return self
        except BaseException:
            if self._number != before:
                self._give_up(_BLOCK)
            if entrance in self._entrances:
                self._give_up(entrance)
            raise

    def close(self) -> None:
        """Restore all patches, if the last entrance ends; do nothing if the session is not open.

        Raises:
            RestoreError: some patches could not be restored; all other patches were.
            CallsError: patches were applied and received fewer calls than they require.
        """
        self._leave_block(None)

    def end(self) -> None:
        """Close the session, whatever the number of entrances; raise like ``close``."""
        for entrance in [*self._entrances][1:]:
            self._entrances.pop(entrance, None)
        self._close(tells=True)

    # --- a with statement, a decorated function

    def __enter__(self) -> Session:
        if getrefcount(self._on_exit) == IDLE:  # called by the program itself
            return self.open()
        if self._entrances and surplus(self) < 1 and not holds_exit(_getframe(1), self):
            return self.open()
        self._has_statements = True
        if self._enter_again(STATEMENT):
            self._entrances[STATEMENT] = self  # the statement holds the exit, and the exit holds the entrances
        else:
            self._enter(Statement())
        return self

    if TYPE_CHECKING:

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    else:
        __exit__ = exit_of_session

    def _leave_block(self, kind: type[BaseException] | None = None, *_: object) -> None:
        before = self._number
        try:
            leave(ref(self), self._entrances, _BLOCK, kind)
        except BaseException:
            if self._is_fast and self._number == before:
                self._give_up(_BLOCK)
            raise

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function with the patches in effect during each call."""
        self._may_stay_new = True  # each call enters the session
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SessionError(
                f"active() cannot decorate the generator {function.__qualname__}: patches would stay on while the "
                "generator is suspended; write the block inside the generator"
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def patched_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return cast(Callable[P, R], patched_coroutine)

        @wraps(function)
        def patched(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return patched

    # --- asked while open

    @property
    def entries(self) -> Sequence[Entry]:
        """The ledger entries of the session's patches."""
        return self._ledger.entries

    @property
    def has_failed(self) -> bool:
        """True if a required patch could not be applied."""
        return any(entry.state == "failed" and entry.request.patch.required for entry in self.entries)

    @property
    def is_in_effect(self) -> bool:
        """True where the patches are in effect: everywhere, or inside the session's task."""
        return self._scope == "process" or task.is_in_effect(self._number)

    def report(self) -> Report:
        """Return the state of each patch until now."""
        look_again()
        self.look_at_rules()
        with imports.for_ourselves():
            from hookpatch._session.report import report_of  # few blocks are asked for a report
        self._note_interpreters(other_interpreters())
        return report_of(self.entries)

    def look_at_rules(self) -> None:
        """Patch the matches of the rules that have come without an import."""
        for rule in self._rules if self._state == "open" else ():
            rule.match_again()

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins, and the addresses of patches without a plugin, in order."""
        return tuple(dict.fromkeys(request.plugin or request.patch.address for request in self._requests))

    def __repr__(self) -> str:
        return f"<Session of {', '.join(self.names) or 'nothing'}, {self._state}>"

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        # At the interpreter's end no patch is restored: all modules are being emptied (hence the default argument).
        self._listed = self._write_notes = None  # first: the reference would note the death of a closed session
        if getattr(self, "_state", "closed") == "closed" or is_ending():
            return
        if self._state == "new" and not self._may_stay_new:
            message = f"{self!r} was never opened: no patch was applied; use the session in a with statement"
            warn(NeverOpenedWarning(message))
        if self._state == "open":
            message = f"{self!r} was dropped unclosed; use it in a with statement"
            do_or_postpone(self.end)
            warn(ResourceWarning(message), source=self)


def report() -> Report:
    """Return the state of each patch of every open session, the first opened first."""
    with imports.for_ourselves():
        from hookpatch._session.report import report_of  # few programs ask for a report
    look_again()
    sessions, interpreters = open_sessions().values(), other_interpreters()
    for session in sessions:
        session.look_at_rules()
        session._note_interpreters(interpreters)
    return report_of(entry for session in sessions for entry in session.entries)


def still_on(keys: Container[tuple[str | None, ...]]) -> list[PatchReport]:
    """Return the patches of open sessions among the keys of entries, those of the first opened session last.

    A block and the environment may both have a plugin on: the end of one does not end the patches of the other.
    """
    from hookpatch._session.report import report_of  # few programs ask for a report

    entries = [entry for session in reversed(open_sessions().values()) for entry in session.entries]
    return [*report_of((entry for entry in entries if entry.state in _ON and entry.key in keys), look=False)]


_ON: Final = ("waiting", "applied", "overwritten")


def open_sessions() -> dict[int, Session]:
    """Return the open sessions by their numbers, the first opened first."""
    interrupts.write_notes()
    living = filter(None, (weak() for weak, *_ in list(opened.values())))  # a copy, while other threads open and close
    return {session._number: session for session in sorted(living, key=lambda session: session._number)}
