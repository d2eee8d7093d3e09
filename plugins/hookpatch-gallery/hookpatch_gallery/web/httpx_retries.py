"""Have each client of httpx try a failed connection again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        retries: how often a failed connection is tried again.
    """

    retries: int = 3


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Give the argument to both transports, which a client makes for itself."""
    for transport in ("HTTPTransport", "AsyncHTTPTransport"):
        yield hookpatch.default(
            f"httpx:{transport}.__init__",
            retries=options.retries,
            requires="httpx>=0.24,<1",
            why="a client has no argument for retries, and makes a transport without any",
            upstream="https://github.com/encode/httpx/issues/1141",
        )
