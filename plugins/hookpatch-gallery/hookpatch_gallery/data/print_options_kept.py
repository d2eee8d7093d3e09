"""Keep the print options of numpy when colour-science is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hookpatch


def ignore(*args: Any, **options: Any) -> None:
    """Set no print option."""


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Drop the call of one package alone; all other calls set what they should."""
    yield hookpatch.replace(
        "numpy:set_printoptions",
        ignore,
        callers="colour",
        requires="numpy>=1.24,<3",
        why="to import colour switches all arrays of the process to the print format of numpy 1.13",
        upstream="https://github.com/colour-science/colour/issues/1388",
    )
