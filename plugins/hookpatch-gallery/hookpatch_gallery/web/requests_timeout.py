"""Give a timeout to each call of requests that has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        seconds: the timeout of a call that has none.
    """

    seconds: float = 30.0


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Give the timeout where all calls of requests pass: the method of the session."""
    yield hookpatch.default(
        "requests.sessions:Session.request",
        timeout=options.seconds,
        requires="requests>=2.25,<3",
        why="a call without a timeout waits for ever",
        upstream="https://github.com/psf/requests/issues/3070",
    )
