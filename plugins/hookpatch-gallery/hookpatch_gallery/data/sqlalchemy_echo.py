"""Print the SQL statements of one engine of SQLAlchemy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        url: a part of the URL of the engine.
    """

    url: str = "sqlite:"


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Wrap the function that makes engines, under each name that it has."""

    def with_echo(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        url = str(args[0] if args else kwargs["url"])
        return wrapped(*args, **({"echo": True} if options.url in url else {}) | kwargs)

    yield hookpatch.wrap(
        "sqlalchemy.engine.create:create_engine",
        with_echo,
        reach="everywhere",
        requires="SQLAlchemy>=2,<3",
        why="the level of the logger prints the statements of all engines",
        upstream="no issue: echo is an argument, and the call is in another library",
    )
