"""The modules whose import hookpatch waits for."""

from __future__ import annotations

from hookpatch._bootstrap import imports


def watched() -> list[str]:
    """Return the names of the modules, each once for each watch."""
    return [wish.module for wish in imports.pending()]
