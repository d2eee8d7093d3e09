"""JSON as hookpatch writes and reads it: by no function that the module ``json`` offers, for those are patched."""

from __future__ import annotations

from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from typing import Any, Final

# Through json.dumps a patch of it would change what a block hands on to its processes, and its calls be counted.
_encode: Final = JSONEncoder().encode
_decode: Final = JSONDecoder().decode


def written(thing: Any, indent: int | None = None) -> str:
    """Return it as ``json.dumps`` would.

    Raises:
        TypeError: there is something in it that JSON cannot hold.
        ValueError: it contains itself.
    """
    return _encode(thing) if indent is None else JSONEncoder(indent=indent).encode(thing)


def parsed(text: str) -> Any:
    """Return what ``json.loads`` would.

    Raises:
        ValueError: it is no JSON.
    """
    return _decode(text)
