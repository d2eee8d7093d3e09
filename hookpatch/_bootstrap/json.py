"""Write and read JSON without the functions of the module ``json``, since programs patch these."""

from __future__ import annotations

import re
from json.decoder import JSONDecoder
from json.encoder import JSONEncoder
from typing import Any, Final

# A patch of json.dumps would change the text handed on to child processes, and count our calls.
_encode: Final = JSONEncoder().encode
_decode: Final = JSONDecoder().decode
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")


def written(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; raise TypeError or ValueError as ``json.dumps`` does."""
    return _encode(value) if indent is None else JSONEncoder(indent=indent).encode(value)


def written_for_all(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON for any reader: bytes that are no UTF-8, as in a file's name, become text."""
    text = JSONEncoder(ensure_ascii=False, indent=indent).encode(value)
    return _NO_TEXT.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


def parsed(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError as ``json.loads`` does, and for a text nested too deep."""
    try:
        return _decode(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None
