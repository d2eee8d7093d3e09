"""Write and read JSON without the functions of the module ``json``, since programs patch these."""

from __future__ import annotations

from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from typing import Any, Final

# A patch of json.dumps would change the text handed on to child processes, and count our calls.
_encode: Final = JSONEncoder().encode
_decode: Final = JSONDecoder().decode


def written(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; raise TypeError or ValueError as ``json.dumps`` does."""
    return _encode(value) if indent is None else JSONEncoder(indent=indent).encode(value)


def parsed(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError as ``json.loads`` does."""
    return _decode(text)
