"""A module with a Python function of every kind, and patches for its functions."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import hookpatch

SOURCE = '''
    from __future__ import annotations

    import asyncio

    class Marker:
        pass

    def plain(a: Marker, /, b: int = 2, *rest: str, c: float = 3.0, **more: object) -> list[Marker]:
        """What plain does."""
        return a, b, rest, c, more

    plain.note = ["kept"]

    async def coroutine(a: Marker, b: int = 2) -> Marker:
        """What coroutine does."""
        await asyncio.sleep(0)
        return a

    def generator(n: int = 2):
        """What generator does."""
        log = []
        for i in range(n):
            try:
                log.append((yield i))
            except KeyError as error:
                log.append(repr(error))
        return log

    async def async_generator(log: list, n: int = 3):
        """What async_generator does."""
        try:
            for i in range(n):
                try:
                    log.append((yield i))
                except KeyError as error:
                    log.append(repr(error))
        finally:
            await asyncio.sleep(0)
            log.append("closed")

    def closing(free):
        def inner(*, step=1):
            nonlocal free
            free += step
            return free
        return inner

    inner = closing(10)

    class Base:
        def named(self):
            return "base"
        def own(self, size=1):
            return size

    class Model(Base):
        async def coroutine(self, a=1):
            return self, a
        def generator(self, n=2):
            yield from range(n)
        async def async_generator(self):
            yield self
        def named(self):
            return "model of " + super().named()
        @classmethod
        async def class_coroutine(cls):
            return cls
        @staticmethod
        def static_generator(n):
            yield n
'''

FUNCTIONS = ["plain", "coroutine", "generator", "async_generator", "inner"]

REACHES = ["slot", "everywhere"]


def passing_through(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def around(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> str:
    return f"patched({wrapped(*args, **kwargs)})"


def wrap_of(address: str, reach: str, wrapper: Any = passing_through) -> hookpatch.Patch:
    return hookpatch.wrap(f"functions:{address}", wrapper, reach=reach)  # type: ignore[arg-type]  # parametrized


def state_of(function: FunctionType) -> dict[str, Any]:
    """Return all parts of a function, the objects themselves."""
    names = ("code", "kwdefaults", "defaults", "closure", "globals", "name", "qualname", "module", "doc", "annotations")
    return {name: getattr(function, f"__{name}__") for name in names} | {
        f"dict.{name}": value for name, value in vars(function).items()
    }


def are_identical(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return list(before) == list(after) and all(before[name] is after[name] for name in before)
