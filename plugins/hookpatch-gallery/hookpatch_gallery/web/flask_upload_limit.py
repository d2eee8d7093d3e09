"""Give a limit for the size of requests to each Flask application that sets none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hookpatch


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        megabytes: the largest body of a request.
    """

    megabytes: float = 16.0


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Replace the defaults of which each application makes its configuration."""

    def with_limit(defaults: Any) -> Any:
        return type(defaults)({**defaults, "MAX_CONTENT_LENGTH": int(options.megabytes * 1_000_000)})

    yield hookpatch.derive(
        "flask.app:Flask.default_config",
        with_limit,
        requires="Flask>=2.2,<4",
        why="an application without MAX_CONTENT_LENGTH reads a body of any size",
        upstream="no issue: the limit is a setting, and the application of a dependency has none",
    )
