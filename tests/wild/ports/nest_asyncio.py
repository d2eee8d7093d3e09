"""Let a running event loop run a coroutine to its end: nested ``run_until_complete`` and ``asyncio.run``."""

from __future__ import annotations

import asyncio
from asyncio.tasks import _current_tasks
from collections.abc import Callable, Iterator
from typing import Any

import hookpatch


def run_until_complete(wrapped: Callable[..., Any], loop: Any, args: Any, kwargs: Any) -> Any:
    if not loop.is_running():
        return wrapped(*args, **kwargs)
    future = asyncio.ensure_future(*args, loop=loop, **kwargs)
    task = _current_tasks.pop(loop, None)
    try:
        while not future.done():
            loop._run_once()
    finally:
        if task is not None:
            _current_tasks[loop] = task
    return future.result()


def run(wrapped: Callable[..., Any], instance: object, args: Any, kwargs: Any) -> Any:
    loop = asyncio._get_running_loop()
    return wrapped(*args, **kwargs) if loop is None else loop.run_until_complete(args[0])


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.wrap("asyncio.base_events:BaseEventLoop.run_until_complete", run_until_complete)
    yield hookpatch.wrap("asyncio.runners:run", run, reach="everywhere")
    line = "handle = self._ready.popleft()"
    yield hookpatch.edit("asyncio.base_events:BaseEventLoop._run_once", line, f"if not self._ready: break\n{line}")
