"""Coroutines and generators behave the same while patched."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import ModuleType
from typing import Any

import pytest
from function_kinds import REACHES, wrap_of

import hookpatch

MakeModule = Callable[[str, str], ModuleType]


# --- coroutines and generators


@pytest.mark.parametrize("reach", REACHES)
def test_coroutine_function_gives_a_coroutine(kinds: ModuleType, reach: str) -> None:
    """The wrapper runs at the call, may await the original, and returns the result."""
    ran: list[str] = []

    async def answer(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return "patched", await coroutine

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        ran.append("wrapper")
        return answer(wrapped(*args, **kwargs))

    with hookpatch.active(wrap_of("coroutine", reach, wrapper)):
        coroutine = kinds.coroutine(1)
        assert inspect.iscoroutine(coroutine)
        assert ran == ["wrapper"]
        assert asyncio.run(coroutine) == ("patched", 1)
    assert asyncio.run(kinds.coroutine(1)) == 1


@pytest.mark.parametrize("reach", REACHES)
def test_async_wrapper_of_a_coroutine_method(kinds: ModuleType, reach: str) -> None:
    """An async wrapper around an async method gets the bound method."""

    async def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return "patched", instance, await wrapped(*args, **kwargs)

    model = kinds.Model()
    with hookpatch.active(wrap_of("Model.coroutine", reach, wrapper)):
        assert asyncio.run(model.coroutine(5)) == ("patched", model, (model, 5))


def _drive(function: Callable[..., Generator[Any, Any, Any]]) -> list[Any]:
    """Send into a generator, throw, take the return value, close another generator."""
    running = function(3)
    out = [next(running), running.send("sent"), running.throw(KeyError("thrown"))]
    with pytest.raises(StopIteration) as ended:
        running.send("last")
    out.append(ended.value.value)
    second = function(3)
    next(second)
    second.close()
    with pytest.raises(StopIteration):
        next(second)
    third = function(3)
    next(third)
    with pytest.raises(ValueError, match="not caught"):
        third.throw(ValueError("not caught"))
    out.append(list(function()))
    return out


@pytest.mark.parametrize("reach", REACHES)
def test_generator_takes_send_throw_and_close(kinds: ModuleType, reach: str) -> None:
    """Values sent, errors thrown, the return value and closing pass through a patched generator."""
    before = _drive(kinds.generator)
    with hookpatch.active(wrap_of("generator", reach)):
        assert _drive(kinds.generator) == before
        assert inspect.isgenerator(kinds.generator())
    assert _drive(kinds.generator) == before


async def _drive_async(function: Callable[..., AsyncGenerator[Any, Any]]) -> list[Any]:
    """Send, throw, close early and late, exhaust; return all observations."""
    observations: list[Any] = []
    log: list[Any] = []
    running = function(log)
    observations += [await anext(running), await running.asend("sent"), await running.athrow(KeyError("thrown"))]
    with pytest.raises(StopAsyncIteration):
        await running.asend("last")
    observations.append(list(log))

    log.clear()
    closed = function(log)
    await anext(closed)
    await closed.aclose()
    await closed.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(closed)
    observations.append(list(log))

    log.clear()
    never = function(log)
    await never.aclose()
    observations.append(list(log))

    failing = function(log)
    await anext(failing)
    with pytest.raises(ValueError, match="not caught"):
        await failing.athrow(ValueError("not caught"))
    observations.append(list(log))

    early = function(log)
    with pytest.raises(TypeError) as refused:
        await early.asend("too early")
    observations.append(str(refused.value))
    with pytest.raises(KeyError, match="at once"):
        await early.athrow(KeyError("at once"))

    log.clear()
    observations.append([item async for item in function(log, n=4)])
    observations.append(list(log))
    return observations


@pytest.mark.parametrize("reach", REACHES)
def test_async_generator_takes_asend_athrow_and_aclose(kinds: ModuleType, reach: str) -> None:
    """Values sent, errors thrown, early and late closing pass through a patched async generator."""
    before = asyncio.run(_drive_async(kinds.async_generator))
    with hookpatch.active(wrap_of("async_generator", reach)):
        assert asyncio.run(_drive_async(kinds.async_generator)) == before
        assert inspect.isasyncgen(kinds.async_generator([]))
    assert asyncio.run(_drive_async(kinds.async_generator)) == before


@pytest.mark.parametrize("reach", REACHES)
def test_async_generator_that_ignores_its_end_raises_as_before(make_module: MakeModule, reach: str) -> None:
    """An async generator that yields while closing raises Python's RuntimeError."""
    module = make_module(
        "functions",
        """
        async def stubborn():
            try:
                yield 1
            except GeneratorExit:
                yield 2
        """,
    )

    async def close() -> str:
        running = module.stubborn()
        await anext(running)
        with pytest.raises(RuntimeError) as caught:
            await running.aclose()
        return str(caught.value)

    before = asyncio.run(close())
    with hookpatch.active(wrap_of("stubborn", reach)):
        assert asyncio.run(close()) == before


@pytest.mark.parametrize("reach", REACHES)
def test_wrapper_of_an_async_generator_may_be_one(kinds: ModuleType, reach: str) -> None:
    """A wrapper written as an async generator changes the items."""

    async def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
        async for item in wrapped(*args, **kwargs):
            yield ("patched", item)

    async def items() -> list[Any]:
        return [item async for item in kinds.async_generator([], 2)]

    with hookpatch.active(wrap_of("async_generator", reach, wrapper)):
        assert asyncio.run(items()) == [("patched", 0), ("patched", 1)]
    assert asyncio.run(items()) == [0, 1]


@pytest.mark.parametrize("reach", REACHES)
def test_generator_begun_inside_goes_on_after_the_end(kinds: ModuleType, reach: str) -> None:
    """A generator begun inside goes on after the end."""
    with hookpatch.active(wrap_of("generator", reach)):
        running = kinds.generator(3)
        assert next(running) == 0
    assert running.send("after") == 1
    assert running.send("the end") == 2
    with pytest.raises(StopIteration) as ended:
        next(running)
    assert ended.value.value == ["after", "the end", None]


# --- awaitables, and ways to call a method


@pytest.mark.parametrize("reach", REACHES)
def test_generator_that_is_a_coroutine_can_be_awaited(make_module: MakeModule, reach: str) -> None:
    """A generator made awaitable by types.coroutine can be awaited while patched."""
    module = make_module(
        "functions",
        """
        import types
        @types.coroutine
        def awaitable():
            yield
            return 5
        """,
    )

    async def main() -> Any:
        return await module.awaitable()

    with hookpatch.active(wrap_of("awaitable", reach)):
        assert asyncio.run(main()) == 5
        assert inspect.isawaitable(module.awaitable())
    assert asyncio.run(main()) == 5
