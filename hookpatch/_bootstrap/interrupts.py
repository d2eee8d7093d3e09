"""Survive an interrupt, for example Ctrl-C or a raising signal handler, at any instruction of hookpatch.

A lock and an operation note the frame of the beginning function. An interrupt ends the function and leaves the note.
The next thread that finds the note takes the lock, or finishes the operation.

A plain block takes no lock, but the fast path: one mark for the whole process. The block goes on if no lock is taken.
A thread that takes a lock waits until the fast path is free.

Long because a lock and the fast path wait for each other.
"""

from __future__ import annotations

import builtins
import os
import sys
from _thread import LockType, RLock, allocate_lock, get_ident
from sys import _getframe, getrecursionlimit
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any, Final, Protocol

    class Traveller(Protocol):
        """The user of the fast path: finishes its act after an interrupt."""

        def finish(self, entrance: object) -> None:
            """Undo or finish the interrupted act; may be called again."""

        def needs(self, lock: Turn) -> bool:
            """Return True if a change under a lock must not come between, for example a finalizer's."""


# The functions of hookpatch call these: a patched ``isinstance`` that raises an error would prevent its own restoring.
# Python takes a function's builtins from the module; ``imports`` puts these into all other files.
__builtins__ = {**vars(builtins), "__name__": "hookpatch.builtins"}  # type: ignore[assignment]  # a module or its dict

_LOOK_AGAIN: Final = 0.02  # seconds, while another thread has a lock: the thread may have been interrupted

_forks = 0  # how often this process and its parents were forked
_survivor = 0  # the thread that made the last fork: of other threads a child process has only the frames


def _after_fork_in_child() -> None:
    global _forks, _survivor, _switch
    _survivor = get_ident()
    _forks += 1
    _switch = RLock()  # another thread may have the former
    if (entry := fast_path.get(None)) is not None and not _is_of_this_thread(entry[0]):
        fast_path.clear()  # the entry of a thread that found the lock taken for the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)  # first: other modules release their locks after this


class Begun:
    """A note of an act begun by a frame. ``frame`` is None after the end."""

    __slots__ = ("forks", "frame", "thread")

    def __init__(self, frame: FrameType | None) -> None:
        self.frame = frame
        self.thread = get_ident()
        self.forks = _forks

    def is_interrupted(self) -> bool:
        """Return True if an interrupt ended the frame before the end was noted.

        ``frame.clear`` raises an error for a running frame. For another frame, ``frame.clear`` drops local variables
        that are no longer read. A walk over the frames of another thread can crash Python 3.11.
        """
        frame = self.frame
        if frame is None:
            return False
        try:
            frame.clear()
        except RuntimeError:  # running, or left behind by a fork
            return self.forks != _forks and self.thread != _survivor
        return self.frame is not None


# The user of the fast path: the frame, the traveller, the entrance that begins or ends, and the time.
# GIL: taken by ``first_of`` and left by ``del``, in one operation each.
fast_path: Final[dict[None, tuple[FrameType, Traveller, object, float]]] = {}
first_of: Final = fast_path.setdefault  # bound here: a method of an imported name would be bound at each call


def _is_of_this_thread(frame: FrameType) -> bool:
    caller: FrameType | None = _getframe()
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is not None


def wait_for_fast_path(lock: Turn | None = None, until: float | None = None) -> bool:
    """Wait until no other thread is on the fast path; return False if this thread is, and needs the lock.

    Return False, too, once ``time.monotonic`` has reached ``until``.
    """
    while (entry := fast_path.get(None)) is not None and not _mending.belongs_to_thread:
        frame, traveller, _, _ = entry
        if _is_of_this_thread(frame):
            return lock is None or not traveller.needs(lock)
        try:
            frame.clear()  # as in ``Begun.is_interrupted``
        except RuntimeError:
            if until is not None and monotonic() >= until:
                return False
            sleep(0)
        else:
            _mend(entry)
    return True


def _mend(entry: tuple[FrameType, Traveller, object, float]) -> None:
    """Finish an interrupted act on the fast path; one thread at a time, so no thread removes a later entry."""
    if not _mending.acquire_for(_getframe(), goes_first=True):  # a frame in its own variable would live on
        return
    try:
        if fast_path.get(None) is entry:
            entry[1].finish(entry[2])
            del fast_path[None]
    finally:
        _mending.release_for(_getframe())


def take_fast_path(frame: FrameType, traveller: Traveller) -> bool:
    """Take the fast path for a frame, until ``del fast_path[None]``; return False if this thread has the fast path."""
    entry = frame, traveller, None, 0.0
    while first_of(None, entry) is not entry:
        wait_for_fast_path()
        if (current := fast_path.get(None)) is not None and _is_of_this_thread(current[0]):
            return False
    write_notes_now()
    return True


# By number, the open block whose notes (layers, watches) nobody has needed so far, and the function that writes the
# notes. At most one block. Written before a lock is taken, and before any other look. Changed on the fast path.
unwritten: Final[dict[int, Callable[[int], object]]] = {}


def write_notes() -> None:
    """Write the notes of the block on the fast path, unless this thread opens or closes the block just now."""
    while unwritten:
        if first_of(None, (_getframe(), reader, None, 0.0))[0] is _getframe():
            try:
                write_notes_now()
            finally:
                del fast_path[None]
        elif (entry := fast_path.get(None)) is not None and _is_of_this_thread(entry[0]):
            return
        elif not wait_for_fast_path(until=0.0):  # no longer: another thread may import what this thread imports
            sleep(0)


def write_notes_now() -> None:
    """Write the notes. On the fast path; repeated after an interrupt."""
    for number, write in [*unwritten.items()]:
        write(number)
        unwritten.pop(number, None)


class _Reader:
    """A traveller with nothing to undo: it only reads, or the next look repeats its act."""

    def finish(self, entrance: object) -> None: ...

    def needs(self, lock: Turn) -> bool:
        return False


reader: Final = _Reader()


def is_interrupt(error: BaseException) -> bool:
    """Return True for an error that the executed code did not raise itself, and for each KeyboardInterrupt.

    Raised by a signal handler, by a function that traces or profiles, or by another thread; or the callers had used up
    the stack.
    """
    if not isinstance(error, (Exception, SystemExit)):
        return True
    if isinstance(error, RecursionError) and _has_met_a_deep_stack(error):
        return True
    frames = [*_frames_of(error)]
    foreign = [frame for frame, _ in frames if _package(frame) != _OURS]
    codes = handler_codes() if foreign else ()
    is_called = any(frame.f_code in codes or _is_called_by_python(frame) for frame in foreign)
    return is_called or _is_of_another_thread(error, frames)


def _is_called_by_python(frame: FrameType) -> bool:
    """Return True for a function that Python has called between two instructions, with the frame or code there."""
    code, caller = frame.f_code, frame.f_back
    if caller is None:
        return False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _TAKES_MORE)]
    arguments = [frame.f_locals.get(name) for name in names]
    values = [*arguments, *(arguments[-1] if arguments and type(arguments[-1]) is tuple else ())]
    return any(value is caller or value is caller.f_code for value in values)


def _is_of_another_thread(error: BaseException, frames: list[tuple[FrameType, int]]) -> bool:
    """Return True if ``PyThreadState_SetAsyncExc`` brought an error into a function of hookpatch.

    Python looks for such errors at the beginning of a function, at a jump back, and after a call. A call of C code may
    raise an error, too, but none of a class of the program.
    """
    from opcode import opname  # after an error alone

    if not frames or not all(_package(frame) in _OURS_AND_PYTHONS for frame, _ in frames):
        return False
    frame, last = frames[-1]
    name = opname[frame.f_code.co_code[last]]
    # Our C calls raise errors of Python, and by a filter our own warnings.
    is_usual = type(error) not in _UNUSUAL and type(error).__module__.partition(".")[0] in _OURS_AND_PYTHONS
    return name in _HARMLESS or (not is_usual and ("CALL" in name or "BACKWARD" in name))


def _package(frame: FrameType) -> str:
    name: object = frame.f_globals.get("__name__")  # not the file: a dataclass makes code of no file
    return name.partition(".")[0] if type(name) is str else ""


_OURS: Final = __name__.partition(".")[0]
_OURS_AND_PYTHONS: Final = sys.stdlib_module_names | {_OURS}
_TAKES_MORE: Final = 4  # the flag of a function with ``*args``
_HARMLESS: Final = "RESUME", "JUMP_BACKWARD"
_UNUSUAL: Final = SystemExit, TimeoutError, Exception  # themselves, of Python's own errors


def _has_met_a_deep_stack(error: RecursionError) -> bool:
    """Return False if the executed code itself has recursed, in Python or in C."""
    codes = [frame.f_code for frame, _ in _frames_of(error)]
    depth = len(codes)
    caller: FrameType | None = _getframe()
    while caller is not None:
        depth, caller = depth + 1, caller.f_back
    return len(codes) < 2 * len({*codes}) and depth > getrecursionlimit() // 2


class ErrorsOfCode:
    """Suppress errors of some types in a ``with`` statement, unless a signal handler raised the error.

    A handler may raise an error of any type. A TimeoutError, which time limits raise, is an OSError.
    """

    __slots__ = ("_types",)

    def __init__(self, *types: type[Exception]) -> None:
        self._types = types

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, self._types) and not is_interrupt(error)


def handler_codes() -> list[CodeType]:
    """Return the code of each signal handler of this process."""
    from _signal import NSIG, getsignal  # type: ignore[import-not-found]  # signal makes enums, sixty times as slow

    handlers: list[Any] = [getsignal(number) for number in range(1, NSIG)]
    codes = (getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers)
    return [*filter(None, codes)]


def is_of_code(error: BaseException) -> bool:
    """Return True if the executed code raised an error itself. False for Ctrl-C and for other signals.

    Code may raise a KeyboardInterrupt, too: by the statement ``raise``. Ctrl-C comes between any two instructions.
    """
    if isinstance(error, (Exception, SystemExit)):
        return not is_interrupt(error)
    from opcode import opname  # after an error alone

    *_, (frame, last) = [*_frames_of(error)] or [(_getframe(), 0)]
    is_statement = opname[frame.f_code.co_code[last]] == "RAISE_VARARGS"
    return is_statement and not is_interrupt(SystemExit().with_traceback(error.__traceback__))


def _frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of an error's traceback, each with the place of the last instruction."""
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


class _Holder(Begun):
    """A holder of a lock, until ``end``; ``following`` has the next holder."""

    __slots__ = ("following",)

    def __init__(self, frame: FrameType | None) -> None:
        self.frame = frame  # not by super(): sixteen holders a block
        self.thread = get_ident()
        self.forks = _forks
        self.following: dict[None, _Holder] = {}

    def end(self) -> None:
        self.frame = None
        held.pop(self, None)
        if _waiting:
            for gate in _waiting.pop(self, ()):
                gate.release()

    def wait(self) -> None:
        """Wait for the end, 20 ms at most: an interrupted holder never opens the gate."""
        gate = allocate_lock()
        gate.acquire()
        _waiting.setdefault(self, []).append(gate)
        if self.frame is not None:
            gate.acquire(timeout=_LOOK_AGAIN)
        elif gates := _waiting.pop(self, None):  # the holder ended just now
            for waiting_gate in gates:
                waiting_gate.release()


# The holders of all locks. An interrupted holder stays here until the next look. GIL: one operation each.
held: Final[dict[_Holder, None]] = {}
_waiting: Final[dict[_Holder, list[LockType]]] = {}  # the gates by holder. GIL: changed in one operation
takers: Final[set[str]] = {__file__}  # the files whose functions take locks, or the fast path


def may_hold_a_lock(frame: FrameType | None) -> bool:
    """Return True if a frame or a caller may hold a lock: a finalizer called in the frame must not wait for a lock.

    The thread with the other lock may wait for the lock of this thread.
    """
    while frame is not None and frame.f_code.co_filename not in takers:
        frame = frame.f_back
    return frame is not None


class Turn:
    """A lock that belongs to a running frame: an interrupted frame holds no lock.

    The holders are a linked list. Each holder notes the next in one operation of a dict (GIL): two holders never have
    the lock. A ``with`` statement in a thread with the lock goes on, as with an RLock.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = _Holder(None)

    def acquire_for(self, frame: FrameType, until: float | None = None, goes_first: bool = False) -> bool:
        """Take the lock for a frame of this thread; return False if this thread has the lock.

        ``until``: the moment of ``time.monotonic`` at which the wait for other threads ends; the result is False.
        ``goes_first``: do not wait for the fast path.
        """
        while goes_first or not fast_path or wait_for_fast_path(self, until):
            if not self._take_once(frame, until):
                return False
            if goes_first or not fast_path or _is_travelling():
                if unwritten and not goes_first:
                    write_notes()
                return True
            self.release_for(frame)  # a thread waits for the fast path without a lock
        return False

    def _take_once(self, frame: FrameType, until: float | None) -> bool:
        mine = _Holder(frame)
        last = self._last
        while True:
            if last.frame is None:
                following = last.following.setdefault(None, mine)
                if following is mine:
                    self._last = mine
                    held[mine] = None
                    return True
                last = following
            elif last.is_interrupted():
                last.end()
            elif last.thread == mine.thread or (until is not None and monotonic() >= until):
                return False
            else:
                last.wait()

    @property
    def belongs_to_thread(self) -> bool:
        """True if this thread has the lock."""
        last = self._holder()
        if last.frame is not None and not last.is_interrupted():
            return last.thread == get_ident()
        entry = fast_path.get(None)
        return entry is not None and entry[1].needs(self) and _is_of_this_thread(entry[0])

    def release_for(self, frame: FrameType) -> None:
        """Release the lock if this frame has taken the lock."""
        last = self._last
        if last.frame is not frame:
            last = self._holder()
        if last.frame is frame:
            last.end()

    def _holder(self) -> _Holder:
        """Return the last holder, even if an interrupt came before ``_last`` was set."""
        last = self._last
        while following := last.following:
            last = following[None]
        return last

    def __enter__(self) -> None:
        frame = _getframe(1)
        takers.add(frame.f_code.co_filename)
        self.acquire_for(frame)

    def __exit__(self, *_: object) -> None:
        self.release_for(_getframe(1))

    def acquire(self) -> None:
        """Take the lock before a fork, for the frame that forks."""
        self.acquire_for(_getframe(1))

    def release(self) -> None:
        """Release the lock after a fork."""
        self.release_for(_getframe(1))


def _is_travelling() -> bool:
    """Return True if this thread is on the fast path, or finishes an interrupted act of the fast path."""
    entry = fast_path.get(None)
    return entry is None or _mending.belongs_to_thread or _is_of_this_thread(entry[0])


_mending: Final = Turn()


class Operation(Begun):
    """An operation that ``finish`` ends in any state. ``finish`` may be called again."""

    __slots__ = ("finish",)

    def __init__(self, finish: Callable[[], object], frame: FrameType) -> None:
        super().__init__(frame)
        self.finish: Final = finish


# GIL: changed and copied in one operation each.
operations: Final[dict[Operation, bool]] = {}


def begin(finish: Callable[[], object], frame: FrameType | None = None) -> Operation:
    """Note an operation before its first act; after an interrupt the next look calls ``finish``.

    ``frame``: the frame in which the operation begins and ends; None for the calling function.
    """
    operation = Operation(finish, frame or _getframe(1))
    operations[operation] = True
    return operation


def end(operation: Operation) -> None:
    """Note that an operation has ended."""
    operation.frame = None  # first: the frame holds the operation in a variable
    operations.pop(operation, None)


def finish(operation: Operation) -> None:
    """Finish an operation, unless another thread does. After an interrupt the next look goes on."""
    again = begin(operation.finish)  # first: ``finish`` may be interrupted, too
    try:
        if operations.pop(operation, False):  # GIL: one operation, no act is done twice
            operation.finish()
    except Exception as error:
        if not is_interrupt(error):
            end(again)
        raise
    end(again)


def finish_interrupted() -> None:
    """Finish all operations whose frames were interrupted. Called before each look at patches."""
    if fast_path:
        wait_for_fast_path()
    write_notes()
    for holder in [*held]:
        if holder.frame is None or holder.is_interrupted():  # None: `end` was interrupted
            holder.end()
    for operation in list(operations):
        if operation.frame is None:
            operations.pop(operation, None)  # `end` was interrupted
        elif operation.is_interrupted():
            finish(operation)


if _COLLECTS_MEANWHILE := sys.version_info < (3, 12):
    import gc  # not at each start of a later Python
_asking: Final[dict[object, None]] = {}  # a new object of each call that needs the collector off
_off: Final[list[None]] = []  # an item as long as such a call has switched the collector off
_switch = RLock()  # around both: no foreign code runs meanwhile


def frames_of_threads() -> dict[int, FrameType]:
    """Return the frame of each thread, by the thread's number.

    ``sys._current_frames`` holds a lock of the interpreter, in which Python 3.11 may run the collector (gh-106883, in
    3.11.7 and others). A finalizer would then wait for the GIL with this lock, and a thread with the GIL for the lock,
    for ever. So the collector is off meanwhile.
    """
    if not _COLLECTS_MEANWHILE:
        return sys._current_frames()
    question = object()
    operation = begin(lambda: _collect_again(question))
    try:
        with _switch:
            _asking[question] = None
            if gc.isenabled():
                _off.append(None)
                gc.disable()
        return sys._current_frames()
    finally:
        _collect_again(question)
        end(operation)


def _collect_again(question: object) -> None:
    """Switch the collector on after the last of several questions, if it was on before the first."""
    with _switch:
        _asking.pop(question, None)
        if _off and not _asking:
            gc.enable()
            _off.clear()
