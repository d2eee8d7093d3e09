"""nest_asyncio: a running event loop may be run again."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import nest_asyncio

DISTRIBUTION, OWN = "nest-asyncio", ("nest_asyncio",)
SOURCES = tuple(f"nest_asyncio:{name}" for name in ("apply", "_patch_asyncio", "_patch_policy", "_patch_loop"))
BODIES = {
    *("run", "_get_event_loop", "get_event_loop", "run_forever", "run_until_complete", "_run_once"),
    *("manage_run", "manage_asyncgens", "_check_running"),
}

early = types.ModuleType("early")
exec("from asyncio import run", vars(early))
sys.modules["early"] = early
LOOP = asyncio.new_event_loop()
asyncio.set_event_loop(LOOP)


def apply() -> None:
    nest_asyncio.apply(LOOP)


def undo() -> None:
    """Do nothing: nest_asyncio has no undo."""


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def nested(run: Callable[[Coroutine[Any, Any, int]], int]) -> bool:
    """Return True if a coroutine can run another coroutine to the end."""

    async def outer() -> int:
        inner = answer()
        try:
            return run(inner)
        finally:
            inner.close()

    with suppress(RuntimeError):
        return LOOP.run_until_complete(outer()) == 42
    return False


def deeper(inner: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine that runs the given coroutine to the end."""

    async def between() -> int:
        return LOOP.run_until_complete(inner)

    outer = between()
    try:
        return LOOP.run_until_complete(outer)
    finally:
        outer.close()


def outlived() -> bool:
    """Return True if the inner run may end after the outer one's coroutine."""
    results = []

    async def background() -> None:
        inner = asyncio.sleep(0.02, 42)
        with suppress(RuntimeError):
            results.append(LOOP.run_until_complete(inner))
        inner.close()

    async def outer() -> None:
        results.append(asyncio.ensure_future(background()))
        await asyncio.sleep(0.01)

    LOOP.run_until_complete(outer())
    LOOP.run_until_complete(results[0])
    return results[1:] == [42]


def observe() -> dict[str, bool]:
    return {
        "run_until_complete": nested(LOOP.run_until_complete),
        "asyncio.run": nested(lambda inner: asyncio.run(inner)),
        "a name bound before": nested(lambda inner: vars(early)["run"](inner)),
        "two deep": nested(deeper),
        "the outer one ends first": outlived(),
    }
