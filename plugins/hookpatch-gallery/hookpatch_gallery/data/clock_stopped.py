"""Stop the clock for the modules of one program, and for no other module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        at: the time that these modules see, in seconds since 1970.
        modules: patterns of the modules, such as ``shop.*``.
    """

    at: float = 1_000_000_000.0
    modules: list[str] = field(default_factory=lambda: ["__main__"])


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Replace the clock for calls of these modules; threads, logging and timeouts go on."""
    yield hookpatch.replace(
        "time:time",
        lambda: options.at,
        reach="everywhere",
        callers=options.modules,
        why="a result that contains the time of day cannot be compared",
        upstream="no issue: the clock is right",
    )
