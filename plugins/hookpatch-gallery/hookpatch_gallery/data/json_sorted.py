"""Write the keys of JSON objects in their order, so that equal data are equal text."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Give the argument to both functions, also where a module holds them by name."""
    for name in ("dump", "dumps"):
        yield hookpatch.default(
            f"json:{name}",
            sort_keys=True,
            reach="everywhere",
            why="equal data give different text, and differences of files are noise",
            upstream="no issue: the order is an argument, and the call is in another library",
        )
