"""Try out once how this Python lays out and exchanges code, which Python does not promise.

On a Python with another layout each slot gets a wrapt proxy, and a change of a function in place is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from types import FunctionType
from typing import Any, Final, TypeAlias

from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.calls.code import shape_of
from hookpatch._engine.calls.trampoline import Swap, Trampoline, Wrapper
from hookpatch._engine.slots.function import FunctionSlot

PutOn: TypeAlias = Callable[[FunctionType, Wrapper], tuple[FunctionType, Callable[[], None]]]

OLDEST: Final = (3, 11)  # oldest and newest tested Python
NEWEST: Final = (3, 15)
THIS_PYTHON: Final = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
PROXIES: Final = f"{THIS_PYTHON} lays out functions as hookpatch does not know: a wrapt proxy stands for each function"
UNSEEN: Final = (
    f"{THIS_PYTHON} tells who refers to an object as hookpatch does not know: early names are not looked for"
)


@cache
def functions_stand_in() -> bool:
    """Return True if plain functions can stand in for functions of each kind."""
    return _holds(_stand_in)


@cache
def functions_change_inside() -> bool:
    """Return True if functions of each kind can get other code, and later their own code again."""
    return functions_stand_in() and _holds(_change_inside)


def _holds(put_on: PutOn) -> bool:
    with ErrorsOfCode(Exception):  # a later Python may raise anything here
        return all(_runs_around(sample, put_on) for sample in _samples())
    return False


def _runs_around(sample: FunctionType, put_on: PutOn) -> bool:
    """Return True if a wrapper runs around a sample until it is undone."""
    calls: list[tuple[Any, ...]] = []

    def around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls.append(args)
        return wrapped(*args, **kwargs)

    function, undo = put_on(sample, around)
    inside = _result(function)
    undo()
    return inside == _result(sample) == (1, 2, 3) and calls == [(1,)]


def _stand_in(like: FunctionType, wrapper: Wrapper) -> tuple[FunctionType, Callable[[], None]]:
    trampoline = Trampoline(like, like, binds=False)
    trampoline.point(wrapper, like, "a trial")
    return trampoline.function, lambda: None


def _change_inside(function: FunctionType, wrapper: Wrapper) -> tuple[FunctionType, Callable[[], None]]:
    slot, code = FunctionSlot(function, binds=False), function.__code__
    below = slot.copy_with(code)
    trampoline = Trampoline(below, below, binds=False)
    trampoline.point(wrapper, below)
    slot.write(Swap(below, trampoline, below))
    return function, partial(slot.write, code)


def _samples() -> list[FunctionType]:
    """Return a new function of each kind, each with a closure variable: the result is always (1, 2, 3)."""
    third = 3

    def plain(first: int, /, *, second: int = 2) -> Any:
        return first, second, third

    def generator(first: int, /, *, second: int = 2) -> Any:
        yield first, second, third

    async def coroutine(first: int, /, *, second: int = 2) -> Any:
        return first, second, third

    async def async_generator(first: int, /, *, second: int = 2) -> Any:
        yield first, second, third

    samples: list[Any] = [plain, generator, coroutine, async_generator]
    return samples


def _result(function: FunctionType) -> Any:
    """Return the result of a sample, of an iterator or coroutine its first result."""
    result: Any = function(1)
    match shape_of(function):
        case None:
            return result
        case "generator":
            return next(result)
        case shape:
            try:
                (result if shape == "coroutine" else anext(result)).send(None)
            except StopIteration as stop:
                return stop.value
