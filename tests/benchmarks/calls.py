"""The cost of a call of a patched function: hookpatch, wrapt.FunctionWrapper and a closure by hand, the same wrapper.

usage: python tests/benchmarks/calls.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import wrapt
from _timing import compare, heading, timer, times_of, vendor

import hookpatch

SOURCE = """
def area(width, height=2):
    return width

class Box:
    def area(self, width, height=2):
        return width
"""
GOALS = {"wrapt.FunctionWrapper": 0.5, "a closure by hand": 1.3}


def around(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Only call: the remaining time is the cost of getting here."""
    return wrapped(*args, **kwargs)


def with_height(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pass an argument, as hand-written code does."""
    return wrapped(*args, **{**kwargs, "height": 3})


def function_by_hand(function: Callable[..., Any], wrapper: hookpatch.Wrapper) -> Callable[..., Any]:
    """Return a hand-written closure around a function."""

    @wraps(function)
    def closure(*args: Any, **kwargs: Any) -> Any:
        return wrapper(function, None, args, kwargs)

    return closure


def method_by_hand(function: Callable[..., Any], wrapper: hookpatch.Wrapper) -> Callable[..., Any]:
    """Return a hand-written closure around a method."""

    @wraps(function)
    def closure(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(function.__get__(self), self, args, kwargs)

    return closure


@contextmanager
def patched(path: str, patch: Callable[[str], hookpatch.Patch], wrapper: hookpatch.Wrapper) -> Iterator[dict[str, Any]]:
    """Patch ``path`` in four modules, each by another tool. Yield the object to call for each tool."""
    ours, theirs, by_hand, untouched = (vendor(SOURCE) for _ in range(4))
    wrapt.wrap_function_wrapper(theirs.__name__, path, wrapper)
    if path == "area":
        by_hand.area = function_by_hand(by_hand.area, wrapper)
    else:
        by_hand.Box.area = method_by_hand(by_hand.Box.area, wrapper)
    with hookpatch.active(patch(f"{ours.__name__}:{path}")):
        modules = dict(zip(["hookpatch", *GOALS, "not patched"], (ours, theirs, by_hand, untouched), strict=True))
        yield {way: module if path == "area" else module.Box() for way, module in modules.items()}


CASES: dict[str, tuple[str, Callable[[str], hookpatch.Patch], hookpatch.Wrapper]] = {
    "a function, wrap": ("area", lambda target: hookpatch.wrap(target, around), around),
    "a function, wrap, in place": ("area", lambda target: hookpatch.wrap(target, around, reach="everywhere"), around),
    "a function, wrap, callers=": ("area", lambda target: hookpatch.wrap(target, around, callers="timeit"), around),
    "a method, wrap": ("Box.area", lambda target: hookpatch.wrap(target, around), around),
    "a function, inject": ("area", lambda target: hookpatch.inject(target, height=3), with_height),
    "a method, inject": ("Box.area", lambda target: hookpatch.inject(target, height=3), with_height),
}

if __name__ == "__main__":
    for title, (path, patch, wrapper) in CASES.items():
        heading(f"a call of {title}")
        with patched(path, patch, wrapper) as owners:
            times = times_of({way: timer("owner.area(1)", owner=owner) for way, owner in owners.items()})
            compare(times, {} if "callers" in title else GOALS)  # the other tools do not check the caller
