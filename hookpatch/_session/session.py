"""The session: the span in which patches hold. All are applied or none, and all are restored.

Long because opening, closing and finishing what was interrupted share one state.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap import environment, imports, interrupts
from hookpatch._bootstrap.interpreters import others
from hookpatch._bootstrap.interrupts import Turn
from hookpatch._engine.patch.patch import Scope
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import restore_late
from hookpatch._plugins import notify
from hookpatch._session import task
from hookpatch._session.ledger import Entry, Ledger, Requested
from hookpatch._session.lifecycle import Gone, Lifecycle, Policy, look_for_holders, restore_copies
from hookpatch._session.shortfalls import misspelt, never_called, too_few_calls
from hookpatch.errors import (
    CallsError,
    HookpatchWarning,
    NeverCalledWarning,
    NeverOpenedWarning,
    OutlivedWarning,
    RestoreError,
    SessionError,
    UnknownModuleWarning,
)

if TYPE_CHECKING:
    from hookpatch._engine.lock.drift import Drift  # as in lifecycle.py
    from hookpatch._session.report import Report


@final
class Also(NamedTuple):
    """What begins and ends with a session: both take its number. ``end`` may be called without ``begin``, and again."""

    begin: Callable[[int], object]
    end: Callable[[int], object]


P = ParamSpec("P")
R = TypeVar("R")

_numbers: Final = itertools.count(1)
_NONE: Final[frozenset[int]] = frozenset()
_PATIENCE: Final = 60  # seconds, while another thread opens or closes the session
# By number, each with its undos; a dropped session closes itself, and if that is interrupted, the next look does.
# GIL: changed and copied in one operation each, without a lock.
_open: Final[dict[int, tuple[ReferenceType[Session], list[Callable[[], object]]]]] = {}
interrupts.takers.add(__file__)
_dropped: Final[list[_Postponed]] = []


@final
class Session:
    """The span in which patches hold; what ``active`` returns.

    Entering applies all patches or none. Closing restores all of them. A session can be entered again, also while it
    is open and by other threads: then it counts, and restores at the last end. A session dropped unclosed raises a
    ``ResourceWarning`` and is closed. The calls of a decorated function enter one session.
    """

    def __init__(
        self,
        asked: Sequence[Requested],
        policy: Policy = "warn",
        scope: Scope = "process",
        count: bool = False,
        also: Sequence[Also] = (),
        is_listed: bool = True,
        drift: Drift | None = None,
    ) -> None:
        self._asked: Final = tuple(asked)
        self._also: Final = tuple(also)
        self._is_listed: Final = is_listed  # False for some of hookpatch's own patches
        self._policy: Final = policy
        self._scope: Final = scope
        self._count: Final = count
        self._drift: Final = drift
        self._may_stay_new = not asked  # False while a drop without opening would be a mistake
        self._number = 0  # set by open
        self._plain: frozenset[int] = _NONE  # other interpreters of this process, made before the session
        self._ledger = Ledger()
        self._state = "new"
        self._turn: Final = Turn()  # held while the session is opened or closed
        self._entrances: Final[dict[object, None]] = {}  # in order; the session is open while it has some
        self._undos: Final[list[Callable[[], object]]] = []  # each noted before its act; the last comes first
        self._errors: Final[list[Exception]] = []

    def open(self) -> Session:
        """Apply all patches whose modules are imported, wait for the others; return the session.

        An open session is entered once more, by any thread: its patches are restored when it has been closed as often.

        Raises:
            HookpatchError: a required patch cannot be applied; the patches applied before are restored.
            SessionError: another thread has been opening or closing the session for a minute.
        """
        self._enter(object())
        return self

    def _enter(self, entrance: object) -> None:
        if self._state != "open":
            look_again()
        self._in_turn(entrance, partial(self._open_or_count, entrance))

    def _in_turn(self, entrance: object, act: Callable[[], None]) -> None:
        """Open or close while no other thread does; leave if ``act`` is interrupted."""
        operation = interrupts.begin(partial(self._give_up, entrance))
        try:
            if self._take(sys._getframe()):
                act()
        except SessionError:  # another thread is at it, or patches that are restored received too few calls
            raise
        except BaseException:
            self._give_up(entrance)
            raise
        finally:
            self._turn.release_for(sys._getframe())
            interrupts.end(operation)
            _finish_dropped()

    def _open_or_count(self, entrance: object) -> None:
        try:
            if self._state in ("opening", "closing"):  # interrupted
                self._restore()
            self._entrances[entrance] = None
            if self._state != "open":
                self._open()
            elif self._scope == "task":
                task.begin(self._number)
        except BaseException as error:
            self._leave(entrance)
            for failure in self._errors:
                error.add_note(f"and while the applied patches were restored: {type(failure).__name__}: {failure}")
            raise

    def _take(self, frame: FrameType) -> bool:
        """Take the turn to open or close; return False in the middle of that, in a factory or an owner's code."""
        if self._turn.take_for(frame, until=monotonic() + _PATIENCE):
            return True
        if self._turn.is_mine:
            return False
        raise SessionError(
            f"{self!r} cannot be entered or left now: another thread has been at it for {_PATIENCE} s; it may wait for "
            "this thread, as for the import of a module; open another session, made by active()"
        )

    def _open(self) -> None:
        self._ledger, self._state = Ledger(), "opening"
        self._errors.clear()
        self._apply_all()
        self._state = "open"
        if self._is_listed:
            _open[self._number] = ref(self), self._undos
        self._ledger.notify()

    def _apply_all(self) -> None:
        self._plain = others()
        self._number = number = next(_numbers)
        lifecycles = [
            Lifecycle(asked, (number, -place), self._ledger, self._policy, self._scope, self._count, self._drift)
            for place, asked in enumerate(self._asked)
        ]
        if not environment.asks_nothing_of_blocks() and environment.disabled():
            for lifecycle in lifecycles:
                lifecycle.skip(f"{environment.DISABLE} is set")
            return
        if self._scope == "task":
            lifecycles += [Lifecycle(asked, (number,), self._ledger, self._policy) for asked in task.CARRIERS]
        for also in self._also:
            self._undos.append(partial(also.end, number))
            also.begin(number)
        things: list[Any] = []
        for lifecycle in lifecycles if len(lifecycles) > 1 else ():
            things += lifecycle.check()  # all before the first is applied; a single patch refuses in time by itself
        if len(things) > 1:
            look_for_holders(self._ledger, things)
        things.clear()  # else this list is a holder, too
        if self._scope == "task":
            self._undos.append(partial(task.end, number))
            task.begin(number)
        begun: list[Lifecycle] = []
        self._undos.append(partial(_end_all, begun, {}, self._ledger, self._errors))
        for lifecycle in lifecycles:
            begun.append(lifecycle)
            lifecycle.begin()
        self._ledger.holders = None
        for error in notify.sites_changed(site for lifecycle in lifecycles for site in lifecycle.touched):
            raise error

    def _restore(self) -> None:
        """Restore what was applied; once interrupted, this may be called again."""
        self._state = "closing"
        _undo_all(self._undos)
        self._ledger.holders = None
        _open.pop(self._number, None)
        self._state = "closed"
        self._entrances.clear()

    def _leave(self, entrance: object) -> None:
        if self._state == "open" and len(self._entrances) > 1:
            self._entrances.pop(entrance, None)
        elif entrance in self._entrances:
            self._restore()

    def _give_up(self, entrance: object) -> None:
        """Leave after an interrupt."""
        self._take(sys._getframe())
        try:
            self._leave(entrance)
        finally:
            self._turn.release_for(sys._getframe())

    def close(self) -> None:
        """Restore all patches, if this ends the last entrance; do nothing if the session is not open.

        Raises:
            RestoreError: some patches could not be restored; all others were.
            CallsError: patches were applied and received fewer calls than they require.
        """
        self._close(tells=True)

    def end(self) -> None:
        """Close the session, however often it was entered; raise like ``close``."""
        while len(self._entrances) > 1:
            self._entrances.popitem()
        self._close(tells=True)

    def _close(self, tells: bool, entrance: object = None) -> None:
        if self._state != "open":
            _finish_interrupted()
            self._may_stay_new = True  # closed on purpose, not forgotten
            return
        ended = entrance or next(reversed(self._entrances), None)
        self._in_turn(ended, partial(self._close_or_count, tells, ended, is_any=entrance is None))

    def _close_or_count(self, tells: bool, entrance: object, is_any: bool) -> None:
        if is_any and entrance not in self._entrances:  # another thread has ended that
            entrance = next(reversed(self._entrances), None)
        if entrance not in self._entrances:
            return
        if len(self._entrances) == 1:
            self._close_last(tells, entrance)
        else:
            self._entrances.pop(entrance, None)
            if self._scope == "task":
                task.end(self._number)

    def _close_last(self, tells: bool, entrance: object) -> None:
        try:
            _open.pop(self._number, None)  # a session that is being collected is not given up
            _finish_interrupted()
            if tells:
                imports.notify_late()
            self._note_interpreters()
            kept = others() - self._plain if self._is_listed else _NONE
            entries = self.entries if tells else ()
            messages: list[HookpatchWarning] = [*map(NeverCalledWarning, never_called(entries) if self._count else ())]
            too_few = too_few_calls(entries)
        finally:
            self._leave(entrance)
        restore_late()
        self._ledger.end()
        self._ledger.notify()
        if self._errors:
            raise RestoreError(self._errors)
        messages += map(UnknownModuleWarning, misspelt(entries))
        if kept and (names := [entry.asked.patch.address for entry in entries if entry.keeps_on]):
            outlived = _in_words(kept, f"made inside the block, keeps its patches of {', '.join(names)}")
            messages.append(OutlivedWarning(outlived))
        for message in messages:
            warnings.warn(message, stacklevel=6)
        if too_few:
            raise CallsError(too_few)

    @property
    def entries(self) -> Sequence[Entry]:
        """The ledger entries of its patches."""
        return self._ledger.entries

    @property
    def has_failed(self) -> bool:
        """True if a required patch could not be applied."""
        return any(entry.state == "failed" and entry.asked.patch.required for entry in self.entries)

    def notify(self) -> None:
        """Call the listeners of all sessions with its entries."""
        self._ledger.notify()

    @property
    def holds_here(self) -> bool:
        """True where its patches hold: everywhere, or inside its task."""
        return self._scope == "process" or task.is_here(self._number)

    def report(self) -> Report:
        """Return the state of each patch until now."""
        look_again()
        with imports.for_ourselves():
            from hookpatch._session.report import report_of  # few blocks are asked
        self._note_interpreters()
        return report_of(self.entries)

    def _note_interpreters(self) -> None:
        """Note for its patches the interpreters of this process that run without them."""
        plain = self._plain & others() if self._plain else _NONE
        message = _in_words(plain, "made before the block, runs without it") if plain else None
        for entry in self.entries if message else ():
            if entry.state == "applied" and message not in entry.warnings:
                entry.warnings = (*entry.warnings, str(message))

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(tells=kind is None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function in whose calls the patches hold."""
        self._may_stay_new = True  # the calls enter it
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SessionError(
                f"active() cannot decorate the generator {function.__qualname__}: patches would hold while it is "
                "suspended, too; write the block inside it"
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def patched_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                with _Entrance(self):
                    return await function(*args, **kwargs)

            return cast(Callable[P, R], patched_coroutine)

        @wraps(function)
        def patched(*args: P.args, **kwargs: P.kwargs) -> R:
            with _Entrance(self):
                return function(*args, **kwargs)

        return patched

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins, and the addresses of patches without a plugin, in order."""
        return tuple(dict.fromkeys(asked.plugin or asked.patch.address for asked in self._asked))

    def __repr__(self) -> str:
        return f"<Session of {', '.join(self.names) or 'nothing'}, {self._state}>"

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        # At the interpreter's end nothing is restored: all modules are being emptied (hence the default argument).
        if is_ending():
            return
        if getattr(self, "_state", "") == "new" and not self._may_stay_new:
            message = f"{self!r} was never opened: nothing was patched; use it in a with statement"
            warnings.warn(message, NeverOpenedWarning, stacklevel=2)
        if getattr(self, "_state", "") == "open":
            message = f"{self!r} was dropped unclosed; use it in a with statement"
            _do_or_postpone(self.end)
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)


@final
class _Entrance:
    """One call of a decorated function: dropped when the call is interrupted, which the session is not."""

    __slots__ = ("_entrance", "_session")

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._entrance: object = object()

    def __enter__(self) -> None:
        self._session._enter(self._entrance)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._session._close(kind is None, self._entrance)

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        session = self._session
        if self._entrance in session._entrances and not is_ending():
            _do_or_postpone(partial(session._give_up, self._entrance))


@final
class _Postponed:
    """What a finalizer wanted done in the middle of a change.

    Done when the object is dropped: Python reports an error as the error of a finalizer.
    """

    __slots__ = ("_act",)

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Final = act

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        if not is_ending():
            self._act()


def _do_or_postpone(act: Callable[[], object]) -> None:
    """Do what a finalizer, the caller, wants done; after the change if the finalizer runs in the middle of one."""
    if interrupts.may_hold_a_lock(sys._getframe(1).f_back):
        _dropped.append(_Postponed(act))
    else:
        act()


def _end_all(lifecycles: Sequence[Lifecycle], gone: Gone, ledger: Ledger, errors: list[Exception]) -> None:
    """End all lifecycles, the last first; notify plugins."""
    # One undo for all: an undo each would be ten objects more for the collector.
    touched: list[Site] = []
    for lifecycle in reversed(lifecycles):
        lifecycle.restore(errors, touched, gone)
    if gone:
        restore_copies(gone, ledger.were_there, errors)
    for lifecycle in lifecycles:
        lifecycle.forget()
    errors.extend(notify.sites_changed(touched))


def _undo_all(undos: list[Callable[[], object]]) -> None:
    while undos:
        undo = undos[-1]
        undo()
        try:
            undos.remove(undo)
        except ValueError:  # another thread has done it
            continue


def _finish_interrupted() -> None:
    """Finish what was interrupted: sessions being opened or closed, and finalizers of dropped sessions."""
    interrupts.finish_interrupted()
    _finish_dropped()
    for number, (weak, undos) in _open.copy().items():
        if weak() is None:
            _undo_all(undos)
            _open.pop(number, None)


def _finish_dropped() -> None:
    """Do what finalizers could not do in the middle of a change: after each opening and closing."""
    while _dropped:
        _dropped.pop()


def _in_words(interpreters: Iterable[int], relation: str) -> str:
    return f"interpreter {', '.join(map(str, sorted(interpreters)))} of this process, {relation}"


def look_again() -> None:
    """Apply patches to modules whose import was not noticed, and restore slots whose foreign value has gone."""
    _finish_interrupted()
    imports.notify_late()
    restore_late()


def report() -> Report:
    """Return the state of each patch of every open session, the first opened first."""
    with imports.for_ourselves():
        from hookpatch._session.report import report_of  # likewise
    look_again()
    sessions = open_sessions().values()
    for session in sessions:
        session._note_interpreters()
    return report_of(entry for session in sessions for entry in session.entries)


def open_sessions() -> dict[int, Session]:
    """Return the open sessions by their numbers, the first opened first."""
    living = filter(None, (weak() for weak, _ in list(_open.values())))  # a copy, while other threads open and close
    return {session._number: session for session in sorted(living, key=lambda session: session._number)}
