"""The session: the time in which patches are in effect. All patches are applied or none, and all are restored.

Long because opening, closing and finishing an interrupted change share one state.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from time import monotonic, time
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, ParamSpec, TypeVar, cast, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap import environment, imports, interpreters, interrupts
from hookpatch._bootstrap.interpreters import others
from hookpatch._bootstrap.interrupts import Turn, held, operations, road
from hookpatch._engine.patch.patch import Scope
from hookpatch._engine.site.late_restore import waiting
from hookpatch._engine.site.site import Site, covered
from hookpatch._engine.site.sites import restore_late
from hookpatch._plugins import notify
from hookpatch._plugins.notify import Hearer, hearers, hosts
from hookpatch._session import task
from hookpatch._session.ledger import Entry, Ledger, Requested, listeners
from hookpatch._session.lifecycle.everywhere import look_for_holders, restore_copies
from hookpatch._session.lifecycle.kinds import lifecycle_of
from hookpatch._session.lifecycle.lifecycle import Gone, Lifecycle, Policy
from hookpatch._session.lifecycle.prepared import Prepared, prepared
from hookpatch._session.lifecycle.slots import SlotLifecycle
from hookpatch._session.shortfalls import misspelt, never_called, too_few_calls, too_few_matches
from hookpatch.errors import (
    CallsError,
    HookpatchWarning,
    NeverCalledWarning,
    NeverOpenedWarning,
    OutlivedWarning,
    RestoreError,
    SessionError,
    TooFewMatchesWarning,
    UnknownModuleWarning,
)

if TYPE_CHECKING:
    from hookpatch._engine.lock.drift import Drift  # as in lifecycle.py
    from hookpatch._session.report import Report
    from hookpatch._session.rules import Rule


@final
class Also(NamedTuple):
    """Functions to begin and end a part with a session; both take the session's number.

    ``end`` may be called without ``begin``, and again. ``begin_again`` and ``end_again`` do the same on the road, or
    return False if the act needs a lock.
    """

    begin: Callable[[int], object]
    end: Callable[[int], object]
    begin_again: Callable[[int], bool] | None = None
    end_again: Callable[[int], bool] | None = None


P = ParamSpec("P")
R = TypeVar("R")

_numbers: Final = itertools.count(1)
_NONE: Final[frozenset[int]] = frozenset()
_PATIENCE: Final = 60  # seconds, while another thread opens or closes the session
# By number, each session with the undos and the parts that end with the session. A dropped session closes itself; after
# an interrupt the next look does. GIL: changed and copied in one operation each, without a lock.
_open: Final[dict[int, tuple[ReferenceType[Session], list[Callable[[], object]], Sequence[Also]]]] = {}
interrupts.takers.add(__file__)
_dropped: Final[list[_Postponed]] = []
_dead: Final[list[object]] = []  # references to collected sessions, which may have left patches
_note_dead: Final = _dead.append
_BLOCK: Final = "a block"  # the entrance of a with statement on the road
# Modules that can keep a block off the road, each with a function that returns True while the module does not.
_DISTURBING: Final = {notify.LIBRARY: notify.is_heard, **dict.fromkeys(interpreters.MODULES, interpreters.is_alone)}


@final
class _Nobody:
    """The user of the road who only reads the session: an interrupt leaves no work."""

    def finish(self, entrance: object) -> None: ...

    def needs(self, lock: Turn) -> bool:
        return False


_nobody: Final = _Nobody()


@final
class Session:
    """The time in which patches are in effect; returned by ``active``.

    Entering applies all patches or none. Closing restores all patches. A session can be entered again, also by other
    threads and while the session is open: the session counts its entrances, and the last end restores the patches.
    A session dropped unclosed raises a ``ResourceWarning`` and is closed. All calls of a decorated function enter the
    same session.
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
        self._written: Ledger | None = None  # see ``_ledger``
        self._state = "new"
        self._turns: Final[dict[None, Turn]] = {}  # see ``_turn``
        self._is_simple: Final = bool(asked) and scope == "process" and not count and drift is None
        self._is_fast = False  # True while open as the road has opened the session
        self._opened_at = self._closed_at = 0.0  # on the road
        self._entrances: Final[dict[object, None]] = {}  # in order; the session is open while not empty
        self._undos: Final[list[Callable[[], object]]] = []  # each noted before its act; the last comes first
        self._errors: Final[list[Exception]] = []
        self._rules: Sequence[Rule] = ()  # of the last opening

    def open(self) -> Session:
        """Apply the patches of all imported modules, wait for the other modules; return the session.

        An open session is entered once more, by any thread: the last of as many closings restores the patches.

        Raises:
            HookpatchError: a required patch cannot be applied; the patches applied before are restored.
            SessionError: another thread has been opening or closing the session for a minute.
        """
        self._enter(object())
        return self

    @property
    def _turn(self) -> Turn:
        """The lock held while the session is opened or closed; made at the first use."""
        return self._turns.get(None) or self._turns.setdefault(None, Turn())  # GIL: one operation

    @property
    def _ledger(self) -> Ledger:
        """The entries of the session's patches; a session opened on the road writes the entries at the first use."""
        if self._written is None:
            self.slow_down()
        return self._written or Ledger()  # empty in the midst of a change by this thread

    def _enter(self, entrance: object) -> None:
        if self._state != "open":
            look_again()
        self._in_turn(entrance, partial(self._open_or_count, entrance))

    # --- the road: a block entered before

    def _enter_again(self, entrance: object) -> bool:
        """Open the session with the prepared patches of the last time; return False if a patch may not fit.

        No lock is taken, and no lifecycle and no entry is made: ``slow_down`` makes lifecycles and entries on demand.
        """
        # The frame is in no variable: a frame holding itself would keep an interrupted call alive.
        if road.setdefault(None, (sys._getframe(), self, None))[0] is not sys._getframe():
            return False
        try:
            return not _is_disturbed() and environment.enables_blocks() and self.begin_again(entrance, hearers)
        except BaseException:
            self.finish(None)
            raise
        finally:
            del road[None]

    def begin_again(self, entrance: object, heard_by: Sequence[Hearer] = ()) -> bool:
        """Apply the patches as the last time; change nothing and return False if a patch may not fit. On the road."""
        if self._state == "open" or not self._is_simple or self._errors:
            return False
        if getattr(self._asked[0].patch, "_prepared", None) is None:
            return False
        self._number = number = next(_numbers)
        self._state, self._is_fast, self._written = "opening", True, None  # in this order, for ``finish``
        weak = ref(self, _note_dead)
        place = 0
        for also in self._also:
            if also.begin_again is None or not also.begin_again(number):
                return self.end_again(heard_by)
        for asked in self._asked:
            kept: Prepared | None = getattr(asked.patch, "_prepared", None)
            if kept is None or not kept.begin(asked, number, place, weak):
                return self.end_again(heard_by)
            self._undos.append(kept.undo)
            place -= 1
        if heard_by and not all(hearer.begin(self._sites()) for hearer in heard_by):
            return self.end_again(heard_by)
        if self._is_listed:
            _open[number] = weak, self._undos, self._also
        self._opened_at = time()
        self._entrances[entrance] = None
        self._state = "open"
        return True

    def _leave_again(self, entrance: object) -> bool:
        """Close a session opened on the road; return False if the session was touched since."""
        if road.setdefault(None, (sys._getframe(), self, entrance))[0] is not sys._getframe():
            return False
        try:
            if _is_disturbed() or entrance not in self._entrances or not self.may_end_again(hearers):
                return False
            self._state = "closing"
            for also in self._also:
                if also.end_again is None or not also.end_again(self._number):
                    self._state = "open"
                    return False
            self._restore_again(hearers)
            return True
        except BaseException:
            self.finish(entrance)
            raise
        finally:
            del road[None]

    def may_end_again(self, heard_by: Sequence[Hearer] = ()) -> bool:
        """Return True if the session was opened on the road and not touched since."""
        if not self._is_fast or self._written is not None or self._errors or len(self._entrances) > 1:
            return False
        for asked in self._asked:
            kept: Prepared | None = getattr(asked.patch, "_prepared", None)
            if kept is None or kept.number != self._number or not kept.may_end():
                return False
        return not heard_by or all(hearer.may_end(self._sites()) for hearer in heard_by)

    def end_again(self, heard_by: Sequence[Hearer] = ()) -> Literal[False]:
        """End the opening or the session of the road, in any state; called again after an interrupt. Return False."""
        for also in self._also:
            if also.end_again is None or not also.end_again(self._number):
                interrupts.begin(partial(also.end, self._number))  # the next look does the part with a lock
        self._restore_again(heard_by)
        return False

    def give_up_again(self) -> bool:
        """End the opening or the session of the road, if any; return False if the end needs a lock."""
        if self._state == "closed":
            return True
        if not self._is_fast or (self._state == "open" and not self.may_end_again()):
            return False
        self.end_again()
        return True

    def _restore_again(self, heard_by: Sequence[Hearer]) -> None:
        number = self._number
        for asked in reversed(self._asked):
            kept: Prepared | None = getattr(asked.patch, "_prepared", None)  # as ``prepared``, without a call
            if kept is not None and kept.number == number:
                kept.end()
        for hearer in heard_by:
            if not hearer.end(sites := self._sites()):
                interrupts.begin(partial(notify.sites_changed, sites))  # likewise
        self._undos.clear()
        _open.pop(number, None)
        self._closed_at = time()
        self._entrances.clear()
        self._is_fast, self._state = False, "closed"

    def _sites(self) -> list[Site]:
        return [kept.site for asked in self._asked if (kept := prepared(asked.patch)) is not None]

    def finish(self, entrance: object) -> None:
        """Restore the patches after an interrupted opening or closing on the road; may be called again.

        ``entrance``: the ending entrance; None for an opening.
        """
        if self._state in ("opening", "closing"):
            self.end_again(hearers)
        elif self._is_fast and entrance in self._entrances:
            interrupts.begin(partial(self._give_up, entrance))  # still whole: the next look ends the entrance

    def needs(self, lock: Turn) -> bool:
        """Return True for the lock of the session, and for the locks of the session's sites."""
        if self._turns.get(None) is lock:
            return True
        kept = (prepared(asked.patch) for asked in self._asked)
        return any(one.site.lock is lock for one in kept if one is not None)

    def slow_down(self) -> None:
        """Make the lifecycles and entries of a session opened on the road, as an opening with locks does."""
        if not interrupts.take_road(sys._getframe(), _nobody):
            return  # in the midst of a change by this thread
        try:
            if self._written is None:
                self._write()
        finally:
            del road[None]

    def _write(self) -> None:
        ledger, number = Ledger(), self._number
        lifecycles = [
            self._lifecycle(place, asked, ledger) for place, asked in enumerate(self._asked if number else ())
        ]
        kept = [one for asked in self._asked if (one := prepared(asked.patch)) is not None] if self._is_fast else []
        for lifecycle, one in zip(lifecycles, kept, strict=False):
            if isinstance(lifecycle, SlotLifecycle):  # no other kind is opened on the road
                lifecycle.adopt(one, self._opened_at)
        if self._is_fast:
            also = [partial(also.end, number) for also in self._also]
            self._undos[:] = [*also, partial(_end_all, lifecycles, {}, ledger, self._errors)]
        for entry in ledger.entries if self._state == "closed" else ():
            entry.state, entry.applied_at, entry.ended_at = "restored", self._opened_at, self._closed_at
        self._written, self._is_fast = ledger, False
        for one in kept:
            one.hand_over()

    def _lifecycle(self, place: int, asked: Requested, ledger: Ledger) -> Lifecycle | Rule:
        rank = self._number, -place
        if not asked.patch.is_rule:
            return lifecycle_of(asked, rank, ledger, self._policy, self._scope, self._count, self._drift)
        with imports.for_ourselves():
            from hookpatch._session.rules import Rule  # most sessions have no rule

        # Without a reference to the session: else a dropped session would not be closed at once.
        of_session = partial(lifecycle_of, rank=rank, ledger=ledger, policy=self._policy, scope=self._scope)
        return Rule(asked, ledger, self._policy, partial(of_session, count=self._count, drift=self._drift))

    # --- with locks

    def _in_turn(self, entrance: object, act: Callable[[], None]) -> None:
        """Open or close the session while no other thread does; leave if ``act`` is interrupted."""
        operation = interrupts.begin(partial(self._give_up, entrance))
        try:
            if self._take(sys._getframe()):
                act()
        except SessionError:  # another thread has the turn, or the restored patches received too few calls
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
        """Take the turn to open or close; return False for a call amid an opening or closing, from foreign code."""
        if self._turn.take_for(frame, until=monotonic() + _PATIENCE):
            return True
        if self._turn.is_mine:
            return False
        raise SessionError(
            f"{self!r} cannot be entered or left now: another thread has been at it for {_PATIENCE} s; it may wait for "
            "this thread, as for the import of a module; open another session, made by active()"
        )

    def _open(self) -> None:
        self._written, self._state = Ledger(), "opening"
        self._errors.clear()
        self._apply_all()
        self._state = "open"
        if self._is_listed:
            _open[self._number] = ref(self, _note_dead), self._undos, self._also
        self._ledger.notify()

    def _apply_all(self) -> None:
        self._plain = others()
        self._number = number = next(_numbers)
        lifecycles = [self._lifecycle(place, asked, self._ledger) for place, asked in enumerate(self._asked)]
        if not environment.asks_nothing_of_blocks() and environment.disabled():
            for lifecycle in lifecycles:
                lifecycle.skip(f"{environment.DISABLE} is set")
            return
        if self._scope == "task":
            lifecycles += [lifecycle_of(asked, (number,), self._ledger, self._policy) for asked in task.CARRIERS]
        for also in self._also:
            self._undos.append(partial(also.end, number))
            also.begin(number)
        things: list[Any] = []
        self._rules = [lifecycle for lifecycle in lifecycles if not isinstance(lifecycle, Lifecycle)]
        for lifecycle in lifecycles if len(lifecycles) > 1 or self._rules else ():
            things += lifecycle.check()  # all before the first is applied; a single patch refuses in time by itself
        if len(things) > 1:
            look_for_holders(self._ledger, things)
        things.clear()  # a filled list would be a holder, too
        if self._scope == "task":
            self._undos.append(partial(task.end, number))
            task.begin(number)
        begun: list[Lifecycle | Rule] = []
        self._undos.append(partial(_end_all, begun, {}, self._ledger, self._errors))
        for lifecycle in lifecycles:
            begun.append(lifecycle)
            lifecycle.begin()
        for lifecycle in lifecycles:
            if isinstance(lifecycle, Lifecycle):
                lifecycle.run_anew()
        self._ledger.holders = None
        for error in notify.sites_changed(site for lifecycle in lifecycles for site in lifecycle.touched):
            raise error

    def _restore(self) -> None:
        """Restore the applied patches; may be called again after an interrupt."""
        if self._is_fast:
            self.slow_down()
        self._state = "closing"
        _undo_all(self._undos)
        self._ledger.holders = None
        self._is_fast = False
        _open.pop(self._number, None)
        self._state = "closed"
        self._entrances.clear()

    def _leave(self, entrance: object) -> None:
        if self._state == "open" and len(self._entrances) > 1:
            self._entrances.pop(entrance, None)
        elif entrance in self._entrances:
            self._restore()

    def _give_up(self, entrance: object) -> None:
        """End an entrance after an interrupt."""
        self._take(sys._getframe())
        try:
            self._leave(entrance)
        finally:
            self._turn.release_for(sys._getframe())

    def close(self) -> None:
        """Restore all patches, if the last entrance ends; do nothing if the session is not open.

        Raises:
            RestoreError: some patches could not be restored; all other patches were.
            CallsError: patches were applied and received fewer calls than they require.
        """
        self._close(tells=True)

    def end(self) -> None:
        """Close the session, whatever the number of entrances; raise like ``close``."""
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
        if is_any and entrance not in self._entrances:  # another thread has ended the entrance
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
            self.slow_down()
            _open.pop(self._number, None)  # else a session under collection would be given up
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
        messages += map(TooFewMatchesWarning, too_few_matches(entries))
        if kept and (names := [entry.asked.patch.address for entry in entries if entry.keeps_on]):
            outlived = _in_words(kept, f"made inside the block, keeps its patches of {', '.join(names)}")
            messages.append(OutlivedWarning(outlived))
        for message in messages:
            warnings.warn(message, stacklevel=6)
        if too_few:
            raise CallsError(too_few)

    @property
    def entries(self) -> Sequence[Entry]:
        """The ledger entries of the session's patches."""
        return self._ledger.entries

    @property
    def has_failed(self) -> bool:
        """True if a required patch could not be applied."""
        return any(entry.state == "failed" and entry.asked.patch.required for entry in self.entries)

    def notify(self) -> None:
        """Call the listeners of all sessions with the session's entries."""
        self._ledger.notify()

    @property
    def holds_here(self) -> bool:
        """True where the patches are in effect: everywhere, or inside the session's task."""
        return self._scope == "process" or task.is_here(self._number)

    def report(self) -> Report:
        """Return the state of each patch until now."""
        look_again()
        self.look_at_rules()
        with imports.for_ourselves():
            from hookpatch._session.report import report_of  # few blocks are asked for a report
        self._note_interpreters()
        return report_of(self.entries)

    def look_at_rules(self) -> None:
        """Patch the matches of the rules that have come without an import."""
        for rule in self._rules if self._state == "open" else ():
            rule.look()

    def _note_interpreters(self) -> None:
        """Note the interpreters of this process without the patches, in the entry of each patch."""
        here = others()
        plain = self._plain & here if self._plain else _NONE
        messages = [_in_words(plain, "made before the block, runs without it")] if plain else []
        if self._scope == "task" and (late := here - self._plain):  # made later, reads the environment
            messages.append(_in_words(late, "made beside this block of a task, runs without it"))
        for entry in self.entries if messages else ():
            if entry.state == "applied":
                entry.warnings = tuple(dict.fromkeys((*entry.warnings, *messages)))

    def __enter__(self) -> Session:
        before = self._number
        try:
            if self._enter_again(_BLOCK):
                return self
        except BaseException:
            if self._number != before:
                self._give_up(_BLOCK)
            raise
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self._is_fast and self._leave_again(_BLOCK):
                return
        except BaseException:
            self._give_up(_BLOCK)
            raise
        self._close(tells=kind is None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function with the patches in effect during each call."""
        self._may_stay_new = True  # each call enters the session
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SessionError(
                f"active() cannot decorate the generator {function.__qualname__}: patches would hold while it is "
                "suspended, too; write the block inside it"
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def patched_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                call = _Call()
                entrance = ref(call, self._forget_call)
                try:
                    if not self._enter_again(entrance):
                        self._enter(entrance)
                    result = await function(*args, **kwargs)
                except BaseException:
                    if not self._leave_again(entrance):
                        self._close(False, entrance)
                    raise
                if not self._leave_again(entrance):
                    self._close(True, entrance)
                del entrance
                return result

            return cast(Callable[P, R], patched_coroutine)

        @wraps(function)
        def patched(*args: P.args, **kwargs: P.kwargs) -> R:
            call = _Call()
            entrance = ref(call, self._forget_call)
            try:
                if not self._enter_again(entrance):
                    self._enter(entrance)
                result = function(*args, **kwargs)
            except BaseException:
                if not self._leave_again(entrance):
                    self._close(False, entrance)
                raise
            if not self._leave_again(entrance):
                self._close(True, entrance)
            del entrance  # before the call is gone: else `_forget_call` would run
            return result

        return patched

    def _forget_call(self, entrance: object, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        """End the entrance of a call of a decorated function: an interrupt kept the call from doing so."""
        if entrance in self._entrances and not is_ending():
            _do_or_postpone(partial(self._give_up, entrance))

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins, and the addresses of patches without a plugin, in order."""
        return tuple(dict.fromkeys(asked.plugin or asked.patch.address for asked in self._asked))

    def __repr__(self) -> str:
        return f"<Session of {', '.join(self.names) or 'nothing'}, {self._state}>"

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        # At the interpreter's end no patch is restored: all modules are being emptied (hence the default argument).
        if getattr(self, "_state", "closed") == "closed" or is_ending():
            return
        if self._state == "new" and not self._may_stay_new:
            message = f"{self!r} was never opened: nothing was patched; use it in a with statement"
            warnings.warn(message, NeverOpenedWarning, stacklevel=2)
        if self._state == "open":
            message = f"{self!r} was dropped unclosed; use it in a with statement"
            _do_or_postpone(self.end)
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)


@final
class _Call:
    """A call of a decorated function: the object is gone once the call has ended or was interrupted."""

    __slots__ = ("__weakref__",)


@final
class _Postponed:
    """The work of a finalizer that ran in the middle of a change.

    Done when the object is dropped: Python reports an error as the error of a finalizer.
    """

    __slots__ = ("_act",)

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Final = act

    def __del__(self, is_ending: Callable[[], bool] = imports.is_ending) -> None:
        if not is_ending():
            self._act()


def _is_disturbed() -> bool:
    """Return True if a block may not go on the road now: a lock is held, or work waits for a look at the patches."""
    if operations or held or _dropped or _dead or covered or waiting or listeners or hosts:
        return True
    return not imports.is_undisturbed(_DISTURBING)


def _do_or_postpone(act: Callable[[], object]) -> None:
    """Do the work of a finalizer, the caller; after the change if the finalizer runs in the middle of a change."""
    if interrupts.may_hold_a_lock(sys._getframe(1).f_back):
        _dropped.append(_Postponed(act))
    else:
        act()


def _end_all(lifecycles: Sequence[Lifecycle | Rule], gone: Gone, ledger: Ledger, errors: list[Exception]) -> None:
    """End all lifecycles, the last first; notify plugins."""
    # A single undo for all lifecycles: an undo for each would be ten objects more for the collector.
    touched: list[Site] = []
    for lifecycle in reversed(lifecycles):
        lifecycle.restore(errors, touched, gone)
    for lifecycle in reversed(lifecycles):
        if isinstance(lifecycle, Lifecycle):
            lifecycle.end_source(errors)
    if gone:
        restore_copies(gone, ledger.were_there, errors)
    errors.extend(notify.sites_changed(touched))
    for lifecycle in lifecycles:
        lifecycle.forget()


def _undo_all(undos: list[Callable[[], object]]) -> None:
    while undos:
        undo = undos[-1]
        undo()
        try:
            undos.remove(undo)
        except ValueError:  # another thread has removed the undo
            continue


def _finish_interrupted() -> None:
    """Finish interrupted openings and closings of sessions, and finalizers of dropped sessions."""
    interrupts.finish_interrupted()
    _finish_dropped()
    while _dead:
        for number, (weak, undos, alsos) in _open.copy().items():
            if weak() is None:
                _undo_all(undos)
                for also in alsos:
                    also.end(number)
                _open.pop(number, None)
        _dead.clear()


def _finish_dropped() -> None:
    """Do the postponed work of finalizers, after each opening and closing."""
    while _dropped:
        _dropped.pop()


def _in_words(interpreters: Iterable[int], relation: str) -> str:
    return f"interpreter {', '.join(map(str, sorted(interpreters)))} of this process, {relation}"


def look_again() -> None:
    """Apply patches to modules imported without notice, and restore slots after the end of a foreign value."""
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
        session.look_at_rules()
        session._note_interpreters()
    return report_of(entry for session in sessions for entry in session.entries)


def open_sessions() -> dict[int, Session]:
    """Return the open sessions by their numbers, the first opened first."""
    living = filter(None, (weak() for weak, *_ in list(_open.values())))  # a copy, while other threads open and close
    return {session._number: session for session in sorted(living, key=lambda session: session._number)}
