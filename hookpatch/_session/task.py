"""scope="task": a patch in effect for a thread or task and for their children, but not for other threads and tasks.

The patch is in the slot for all threads; each call asks a context variable whether to run the wrapper. asyncio
passes the variable on to new tasks. New threads lack the variable (before Python 3.14): two patches of hookpatch pass
the numbers on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from threading import Thread, current_thread
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from hookpatch._engine.patch.patch import Wrapper, wrap
from hookpatch._session.ledger import Requested

# The numbers of the sessions in effect here. One variable for all sessions, since a context keeps every variable.
_here: Final[ContextVar[tuple[int, ...] | None]] = ContextVar("hookpatch", default=None)
_of_thread: Final[WeakKeyDictionary[Thread, tuple[int, ...]]] = WeakKeyDictionary()  # the numbers at a thread's start


def begin(number: int) -> None:
    """Put a session into effect here, by number, and in tasks and threads started here."""
    _here.set((*_numbers(), number))


def end(number: int) -> None:
    """End one ``begin`` here. Copies of this context keep the number, without effect after the session's end."""
    numbers = _numbers()
    if number in numbers:
        place = numbers.index(number)
        _here.set(numbers[:place] + numbers[place + 1 :])


def is_in_effect(number: int) -> bool:
    """Return True if the session of a number is in effect here."""
    return number in _numbers()


@final
class Gate:
    """An object for guards of compiled code: true where the session of a number is in effect."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number: Final = number

    @property
    def is_open(self) -> bool:
        """True where the session is in effect."""
        return self._number in _numbers()

    def __bool__(self) -> bool:
        return self._number in _numbers()


def only_inside(number: int, wrapper: Wrapper) -> Wrapper:
    """Return a wrapper that passes calls through wherever the session of a number is not in effect."""
    gate = Gate(number)

    def asking(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if gate:
            return wrapper(wrapped, instance, args, kwargs)
        return wrapped(*args, **kwargs)

    vars(asking)["gate"] = gate  # read by an inner layer: the inner layer leaves arguments of the outer layer alone
    return asking


def _numbers() -> tuple[int, ...]:
    """Return the numbers of the sessions in effect here, each as often as the session was entered here."""
    numbers = _here.get()
    if numbers is None:  # not set in this context: a new thread
        numbers = _of_thread.get(current_thread(), ())
    return numbers


def _start_thread(wrapped: Callable[..., Any], instance: Thread, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if numbers := _numbers():
        _of_thread[instance] = numbers
    return wrapped(*args, **kwargs)


def _submit(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    numbers = _numbers()
    if not numbers or not args:
        return wrapped(*args, **kwargs)
    function, *arguments = args
    # A worker thread started by this call also runs work from outside. Therefore the thread starts without a number.
    return _inside((), wrapped, partial(_inside, numbers, function), *arguments, **kwargs)


def _inside(numbers: tuple[int, ...], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    before = _here.set(numbers)
    try:
        return function(*args, **kwargs)
    finally:
        _here.reset(before)


_WHY: Final = "carries scope='task' into the threads that are started inside"
CARRIERS: Final = (
    Requested(wrap("threading:Thread.start", _start_thread, why=_WHY), "hookpatch", "hookpatch"),
    Requested(wrap("concurrent.futures.thread:ThreadPoolExecutor.submit", _submit, why=_WHY), "hookpatch", "hookpatch"),
)
