"""Write an address with braces out: ``m:{a,b}`` names ``m:a`` and ``m:b``, as in a shell."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# A quoted text, a bracket, names in braces, a brace alone, a star.
_TOKEN: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[\[\]*]|\{[^{}]*\}|[{}]""")
_NAMES: Final = re.compile(r"\w+(\.\w+)*")
STAR: Final = "*"


class WrittenOut(NamedTuple):
    """One of the addresses named by an address with braces.

    Attributes:
        address: the address without braces.
        texts: from left to right, the name taken from each pair of braces, and ``STAR`` for each ``*``.
    """

    address: str
    texts: tuple[str, ...]


def written_out(address: str) -> tuple[WrittenOut, ...]:
    """Return the addresses named by an address; empty for an address without braces.

    Braces inside of brackets belong to a key.

    Raises:
        ValueError: in words, the braces cannot be read.
    """
    addresses, depth, position, has_braces = [WrittenOut("", ())], 0, 0, False
    for token in _TOKEN.finditer(address):
        text = token.group()
        depth += {"[": 1, "]": -1}.get(text, 0)
        if depth and text != STAR:
            continue
        if text == STAR:
            addresses = [one._replace(texts=(*one.texts, STAR)) for one in addresses]
        elif text in ("{", "}"):
            raise ValueError(f"has a '{text}' without its partner; braces do not go into braces")
        elif text[0] == "{":
            head = address[position : token.start()]
            names = _names(text)
            addresses = [WrittenOut(f"{a}{head}{name}", (*texts, name)) for a, texts in addresses for name in names]
            position, has_braces = token.end(), True
    if not has_braces:
        return ()
    return tuple(one._replace(address=one.address + address[position:]) for one in addresses)


def _names(braces: str) -> list[str]:
    names = [name.strip() for name in braces[1:-1].split(",")]
    for place, name in enumerate(names):
        if not _NAMES.fullmatch(name):
            raise ValueError(f"has '{name}' in braces, where names stand, as in {{a,b}}")
        if name in names[:place]:
            raise ValueError(f"has '{name}' in braces twice")
    return names
