"""scope="task": a patch that holds for one thread or task and what it starts, and not for its neighbours.

The patch lies in the slot for all; each call asks a context variable whether it is made inside. asyncio hands its
variables on to what a task starts. Threads do not (before Python 3.14), so two patches of our own carry this one over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from threading import Thread, current_thread
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from hookpatch._ledger import Asked
from hookpatch._patch import Patch, Wrapper, wrap

# The numbers of the sessions that hold here. One variable for all, since contexts keep every variable they have seen.
_here: Final[ContextVar[frozenset[int] | None]] = ContextVar("hookpatch", default=None)
_of_thread: Final[WeakKeyDictionary[Thread, frozenset[int]]] = WeakKeyDictionary()  # what those threads began with


def begin(number: int) -> Callable[[], None]:
    """Have the session of this number hold here, and in what is started from here; return the undo."""
    _here.set(_numbers() | {number})
    return partial(_end, number)


def is_here(number: int) -> bool:
    """Tell whether the session of this number holds here."""
    return number in _numbers()


@final
class Gate:
    """True where the session of a number holds. One object to ask, so that compiled code can be guarded by it."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number: Final = number

    @property
    def is_open(self) -> bool:
        """What it is at this moment."""
        return self._number in _numbers()

    def __bool__(self) -> bool:
        return self._number in _numbers()


def only_inside(number: int, wrapper: Wrapper) -> Wrapper:
    """Return a wrapper that passes through wherever the session of this number does not hold."""
    gate = Gate(number)

    def asking(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if gate:
            return wrapper(wrapped, instance, args, kwargs)
        return wrapped(*args, **kwargs)

    return asking


def _end(number: int) -> None:
    # Only here: in contexts copied from this one the number stays, and means nothing once its session has ended.
    _here.set(_numbers() - {number})


def _numbers() -> frozenset[int]:
    """Return the numbers of the sessions that hold here."""
    numbers = _here.get()
    if numbers is None:  # nothing was set in this context: a thread that has just begun
        numbers = _of_thread.get(current_thread(), frozenset())
    return numbers


def _start_thread(wrapped: Callable[..., Any], instance: Thread, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if numbers := _numbers():
        _of_thread[instance] = numbers
    return wrapped(*args, **kwargs)


def _submit(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    numbers = _numbers()
    if not numbers or not args:
        return wrapped(*args, **kwargs)
    function, *rest = args
    # A worker thread that starts at this moment serves others, too: it begins with nothing.
    return _inside(frozenset(), wrapped, partial(_inside, numbers, function), *rest, **kwargs)


def _inside(numbers: frozenset[int], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    before = _here.set(numbers)
    try:
        return function(*args, **kwargs)
    finally:
        _here.reset(before)


def _carrier(target: str, wrapper: Wrapper) -> Asked:
    patch: Patch = wrap(target, wrapper, why="carries scope='task' into the threads that are started inside")
    return Asked(patch, "hookpatch", "hookpatch")


CARRIERS: Final = (
    _carrier("threading:Thread.start", _start_thread),
    _carrier("concurrent.futures.thread:ThreadPoolExecutor.submit", _submit),
)
