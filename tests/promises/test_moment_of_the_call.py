"""The patches at the moment of a call hold for the coroutine or generator, consumed at any time."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import wrapt

import hookpatch
from hookpatch import Patch

SOURCE = """\
import types

async def coroutine(x): return [x]
def generator(x): yield x
async def async_generator(x): yield x
@types.coroutine
def awaitable(x):
    yield
    return [x]

class Owner:
    async def coroutine(self, x): return [x]
    def generator(self, x): yield x
    async def async_generator(self, x): yield x
    @types.coroutine
    def awaitable(self, x):
        yield
        return [x]
    @classmethod
    async def class_coroutine(cls, x): return [x]
    @classmethod
    def class_generator(cls, x): yield x
    @staticmethod
    async def static_coroutine(x): return [x]
    @staticmethod
    async def static_async_generator(x): yield x
"""
NAMES = (
    *("coroutine", "generator", "async_generator", "awaitable"),
    *(f"Owner.{kind}" for kind in ("coroutine", "generator", "async_generator", "awaitable")),
    *("Owner.class_coroutine", "Owner.class_generator", "Owner.static_coroutine", "Owner.static_async_generator"),
)
KINDS = ("iscoroutinefunction", "isgeneratorfunction", "isasyncgenfunction")


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> Any:
    return make_module("vendor", SOURCE)


def raised(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    """Add one to the caller's argument: a wrapper for every kind."""
    return wrapped(args[0] + 1, **kwargs)


def doubled(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(args[0] * 2, **kwargs)


def called(vendor: Any, name: str, *args: Any) -> Any:
    """Call a function of the module, or a method of a new object."""
    *path, last = name.split(".")
    return getattr(vendor.Owner() if path else vendor, last)(*args)


def consumed(result: Any) -> list[Any]:
    """Return all results of a coroutine, generator or async generator."""

    async def main() -> list[Any]:
        if inspect.isasyncgen(result):
            return [item async for item in result]
        awaited: list[Any] = await result
        return awaited

    return list(result) if inspect.isgenerator(result) and not inspect.isawaitable(result) else asyncio.run(main())


def function_of(vendor: Any, name: str) -> Any:
    *path, last = name.split(".")
    return getattr(vendor.Owner if path else vendor, last)


REACHED = [*product(NAMES, ("slot", "everywhere"))]
CELLS = [*product(NAMES, ("slot", "everywhere"), ("process",)), *product(NAMES, ("slot",), ("task",))]


@pytest.mark.parametrize(("name", "reach", "scope"), CELLS)
def test_called_inside_and_consumed_after(vendor: Any, name: str, reach: Any, scope: Any) -> None:
    with hookpatch.active(hookpatch.wrap(f"vendor:{name}", raised, reach=reach), scope=scope):
        result = called(vendor, name, 1)
        assert consumed(called(vendor, name, 1)) == [2]
    assert consumed(result) == [2]
    assert consumed(called(vendor, name, 1)) == [1]


@pytest.mark.parametrize(("name", "reach", "scope"), CELLS)
def test_called_before_and_consumed_inside(vendor: Any, name: str, reach: Any, scope: Any) -> None:
    result = called(vendor, name, 1)
    with hookpatch.active(hookpatch.wrap(f"vendor:{name}", raised, reach=reach), scope=scope):
        assert consumed(result) == [1]


@pytest.mark.parametrize("name", NAMES)
def test_as_wrapt_does(vendor: Any, name: str) -> None:
    *path, last = name.split(".")
    owner = vendor.Owner if path else vendor
    original = vars(owner)[last]
    setattr(owner, last, wrapt.FunctionWrapper(original, raised))
    theirs = called(vendor, name, 1)
    setattr(owner, last, original)
    with hookpatch.active(hookpatch.wrap(f"vendor:{name}", raised)):
        ours = called(vendor, name, 1)
    assert (type(ours), consumed(ours)) == (type(theirs), consumed(theirs))


@pytest.mark.parametrize(("name", "reach"), REACHED)
def test_each_layer_is_that_of_the_call(vendor: Any, name: str, reach: Any) -> None:
    """Of two sessions one ends between the call and the use."""
    outer = hookpatch.active(hookpatch.wrap(f"vendor:{name}", raised, reach=reach)).open()
    earlier = called(vendor, name, 1)
    with hookpatch.active(hookpatch.wrap(f"vendor:{name}", doubled, reach=reach)):
        later = called(vendor, name, 1)
    outer.close()
    assert (consumed(earlier), consumed(later)) == ([2], [3])


@pytest.mark.parametrize(("name", "reach"), REACHED)
def test_arguments_are_checked_at_the_call(vendor: Any, name: str, reach: Any) -> None:
    def through(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    messages = []
    for patches in ((), (hookpatch.wrap(f"vendor:{name}", through, reach=reach),)):
        with hookpatch.active(*patches), pytest.raises(TypeError) as raised_error:
            called(vendor, name, 1, 2, 3)
        messages.append(str(raised_error.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("name", "reach"), REACHED)
def test_kind_of_the_function_stays(vendor: Any, name: str, reach: Any) -> None:
    """For inspect and for asyncio."""

    def kinds() -> list[bool]:
        function = function_of(vendor, name)
        is_coroutine = sys.version_info < (3, 14) and asyncio.iscoroutinefunction(function)  # then deprecated
        return [*(getattr(inspect, kind)(function) for kind in KINDS), is_coroutine]

    before = kinds()
    with hookpatch.active(hookpatch.wrap(f"vendor:{name}", raised, reach=reach)):
        assert kinds() == before
    assert kinds() == before


def _task_outside(vendor: Any, patch: Patch, scope: Any) -> Any:
    async def main() -> Any:
        with hookpatch.active(patch, scope=scope):
            running = asyncio.create_task(vendor.coroutine(1))
        return await running

    return asyncio.run(main())


@pytest.mark.parametrize("scope", ["process", "task"])
def test_task_made_inside_and_awaited_outside(vendor: Any, scope: Any) -> None:
    assert _task_outside(vendor, hookpatch.wrap("vendor:coroutine", raised), scope) == [2]


@pytest.mark.parametrize("verb", ["inject", "count"])
def test_other_ways_around_a_call(vendor: Any, verb: str) -> None:
    patch = (
        hookpatch.inject("vendor:generator", x=5) if verb == "inject" else hookpatch.wrap("vendor:generator", raised)
    )
    with hookpatch.active(patch, count=verb == "count") as session:
        result = vendor.generator(1)
    assert list(result) == [5 if verb == "inject" else 2]
    if verb == "count":
        assert [row.calls for row in session.report()] == [{"eager": 1}]


def test_error_of_a_wrapper_is_raised_at_the_call(vendor: Any) -> None:
    def refuses(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
        raise PermissionError

    with hookpatch.active(hookpatch.wrap("vendor:coroutine", refuses)), pytest.raises(PermissionError):
        vendor.coroutine(1)
