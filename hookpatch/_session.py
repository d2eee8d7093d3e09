"""The span in which patches hold: everything in or nothing, and everything out."""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar, cast, final
from weakref import ReferenceType, ref

from hookpatch import _changes, _environment, _task
from hookpatch._attempt import Attempt, Policy
from hookpatch._ledger import Asked, Entry, Ledger
from hookpatch._missed import misspelt, never_called, too_few_calls
from hookpatch._patch import Scope
from hookpatch._report import Report, report_of
from hookpatch._site import Site
from hookpatch._sites import settle
from hookpatch.errors import (
    CallsError,
    HookpatchWarning,
    NeverCalledWarning,
    NeverOpenedWarning,
    RestoreError,
    SessionError,
    UnknownModuleWarning,
)

if TYPE_CHECKING:
    from hookpatch._drift import Drift  # as in _attempt.py

Begin: TypeAlias = Callable[[int], Callable[[], object]]

P = ParamSpec("P")
R = TypeVar("R")

_numbers: Final = itertools.count(1)
_open: Final[dict[int, ReferenceType[Session]]] = {}  # by number; one that is dropped closes itself


@final
class Session:
    """The span in which patches hold; what ``active`` returns. Lives from entering to closing.

    Entering applies all patches or none. Closing takes all of them back, twice without harm; a session dropped
    unclosed is a ``ResourceWarning`` and is closed then. Used as a decorator it is opened anew for each call.
    """

    def __init__(
        self,
        asked: Sequence[Asked],
        policy: Policy = "warn",
        scope: Scope = "process",
        count: bool = False,
        also: Sequence[Begin] = (),
        is_listed: bool = True,
        drift: Drift | None = None,
    ) -> None:
        self._asked: Final = tuple(asked)
        self._also: Final = tuple(also)
        self._is_listed: Final = is_listed  # False for one of our own that is of no interest to users
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._may_stay_new = not asked  # False as long as it would be a mistake to drop it unopened
        self._number = 0  # set when it is opened
        self._ledger: Final = Ledger()
        self._state = "new"
        self._stack: Final = ExitStack()
        self._errors: Final[list[Exception]] = []

    def open(self) -> Session:
        """Apply all patches whose modules are there, wait for the others; return the session.

        Raises:
            HookpatchError: a required patch cannot be applied; what was applied before it is restored.
            SessionError: it was opened before.
        """
        if self._state != "new":
            raise SessionError(f"{self!r} cannot be opened again; make a new one with active()")
        settle()
        self._state = "open"
        self._number = number = next(_numbers)
        attempts = [
            Attempt(asked, (number, -place), self._ledger, self._policy, self._scope, self._count, self._drift)
            for place, asked in enumerate(self._asked)
        ]
        if not _environment.asks_nothing_of_blocks() and _environment.disabled():
            for attempt in attempts:
                attempt.skip(f"{_environment.DISABLE} is set")
            return self
        if self._scope == "task":
            attempts += [Attempt(asked, (number,), self._ledger, self._policy) for asked in _task.CARRIERS]
        try:
            for begin in self._also:
                self._stack.callback(begin(number))
            for attempt in attempts if len(attempts) > 1 else ():
                attempt.check()  # all of them before any is applied; a single one refuses in time by itself
            if self._scope == "task":
                self._stack.callback(_task.begin(number))
            begun: list[Attempt] = []
            self._stack.callback(_end_all, begun, self._errors)
            for attempt in attempts:
                begun.append(attempt)
                attempt.begin()
            for error in _changes.tell(site for attempt in attempts for site in attempt.touched):
                raise error
        except BaseException as error:
            self._state = "closed"
            self._stack.close()
            for failure in self._errors:
                error.add_note(f"and while taking back what was applied: {type(failure).__name__}: {failure}")
            raise
        if self._is_listed:
            _open[number] = ref(self)
        self._ledger.tell()
        return self

    def close(self) -> None:
        """Take all patches back; a second call does nothing.

        Raises:
            RestoreError: some could not be taken back; all others were.
            CallsError: patches were applied and received fewer calls than they require.
        """
        self._close(tells=True)

    def _close(self, tells: bool) -> None:
        if self._state != "open":
            self._may_stay_new = True  # nobody has forgotten it
            return
        entries = self.entries if tells else ()
        said: list[HookpatchWarning] = [*map(NeverCalledWarning, never_called(entries) if self._count else ())]
        too_few = too_few_calls(entries)
        self._state = "closed"
        _open.pop(self._number, None)
        self._stack.close()
        settle()
        self._ledger.end()
        self._ledger.tell()
        if self._errors:
            raise RestoreError(self._errors)
        said += map(UnknownModuleWarning, misspelt(entries))
        for one in said:
            warnings.warn(one, stacklevel=3)
        if too_few:
            raise CallsError(too_few)

    @property
    def entries(self) -> Sequence[Entry]:
        """What became of its patches until now."""
        return self._ledger.entries

    @property
    def has_failed(self) -> bool:
        """True if a required patch could not be applied."""
        return any(entry.state == "failed" and entry.asked.patch.required for entry in self.entries)

    def tell(self) -> None:
        """Have those who listen to all sessions hear what became of its patches until now."""
        self._ledger.tell()

    @property
    def holds_here(self) -> bool:
        """True where its patches hold: everywhere, or inside its task."""
        return self._scope == "process" or _task.is_here(self._number)

    def report(self) -> Report:
        """Return what became of each patch until now."""
        settle()
        return report_of(self.entries)

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(tells=kind is None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function in whose calls the patches hold."""
        self._may_stay_new = True  # it is opened anew for each call
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SessionError(
                f"active() cannot decorate the generator {function.__qualname__}: patches would hold while it is "
                "suspended, too; write the block inside it"
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def patched_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self.anew():
                    return await function(*args, **kwargs)

            return cast(Callable[P, R], patched_coroutine)

        @wraps(function)
        def patched(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.anew():
                return function(*args, **kwargs)

        return patched

    def anew(self) -> Session:
        """Return another session of the same, which has not been opened."""
        self._may_stay_new = True  # a pattern for others, which no user forgets
        another = Session(self._asked, self._policy, self._scope, self._count, self._also, drift=self._drift)
        another._may_stay_new = True
        return another

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins, and the addresses of the patches that are of none, in the order asked for."""
        return tuple(dict.fromkeys(asked.plugin or asked.patch.address for asked in self._asked))

    def __repr__(self) -> str:
        return f"<Session of {', '.join(self.names) or 'nothing'}, {self._state}>"

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end nothing is taken back: modules are being emptied, this one too (hence the default).
        if is_finalizing():
            return
        if getattr(self, "_state", "") == "new" and not self._may_stay_new:
            said = f"{self!r} was never opened: nothing was patched; use it in a with statement"
            warnings.warn(said, NeverOpenedWarning, stacklevel=2)
        if getattr(self, "_state", "") == "open":
            said = f"{self!r} was dropped unclosed; use it in a with statement"
            self.close()
            warnings.warn(said, ResourceWarning, stacklevel=2, source=self)


def _end_all(attempts: Sequence[Attempt], errors: list[Exception]) -> None:
    """End these, the last first, and tell of it: all of them, whatever comes in between, such as somebody's Ctrl-C."""
    # Not a callback of the stack for each: those are ten objects, and of ten thousand the collector feels each.
    came: BaseException | None = None
    touched: list[Site] = []
    for attempt in reversed(attempts):
        try:
            attempt.end(errors, touched)
        except BaseException as error:  # raised below
            came = came or error
    errors.extend(_changes.tell(touched))
    if came is not None:
        raise came


def report() -> Report:
    """Return what became of each patch of every session that is open now, the first opened first."""
    settle()
    return report_of(entry for session in open_sessions().values() for entry in session.entries)


def open_sessions() -> dict[int, Session]:
    """Return the sessions that are open by their numbers, the first opened first."""
    there = (weak() for weak in list(_open.values()))  # a copy, while other threads open and close
    return {session._number: session for session in sorted(filter(None, there), key=lambda session: session._number)}
