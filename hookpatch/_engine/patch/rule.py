"""Read the declaration of a rule: the required number of matches, and the address of the source for a match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hookpatch._engine.patch.braces import STAR

_BOUND: Final = re.compile(r"\s*(==|>=|<=|>|<)\s*(\d+)\s*")


class Bounds(NamedTuple):
    """The least and the greatest number of matches; None for no greatest."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        most = [] if self.most is None else [f"at most {self.most}"]
        return " and ".join([f"at least {self.least}", *most] if self.least or not most else most)


def read_bounds(matches: object) -> Bounds:
    """Return the bounds of ``matches=3`` or ``matches=">=1,<10"``; raise ValueError for anything else."""
    if type(matches) is int and matches >= 0:
        return Bounds(matches, matches)
    parts = [_BOUND.fullmatch(part) for part in matches.split(",")] if isinstance(matches, str) else [None]
    least, most = 0, None
    for part in parts:
        if part is None:
            raise ValueError(f"matches={matches!r} is neither a number nor a text such as '>=1' or '>=1,<10'")
        sign, number = part[1], int(part[2])
        if sign in ("==", ">=", ">"):
            least = max(least, number + (sign == ">"))
        if sign in ("==", "<=", "<"):
            greatest = number - (sign == "<")
            most = greatest if most is None else min(most, greatest)
    if most is not None and most < least:
        raise ValueError(f"matches={matches!r} allows no number")
    return Bounds(least, most)


def bounds_of(matches: int | str | None, is_required: bool) -> Bounds:
    """Return the bounds of a rule's number of matches: at least one for a required rule without ``matches``."""
    return Bounds(int(is_required), None) if matches is None else read_bounds(matches)


def stars(pattern: str, text: str) -> list[str]:
    """Return the text matched by each ``*`` of a pattern in a matching text."""
    match = re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), text)
    return [] if match is None else [*match.groups()]


def filled(source: str, texts: Sequence[Any]) -> str:
    """Return the address of a source, with each ``*`` and ``[*]`` replaced by the text of the rule's ``*``.

    A source with fewer stars takes the last texts. A text ``STAR`` leaves the star for a later match.
    """
    remaining: Iterator[Any] = iter(texts[len(texts) - source.count("*") :])
    head, *parts = source.split("*")
    for part in parts:
        text = next(remaining)
        if text == STAR:
            head += STAR
        elif head.endswith("[") and part.startswith("]"):
            head += repr(text) if isinstance(text, str) else str(text)[1:-1]
        else:
            head += text if isinstance(text, str) else str(text.key)
        head += part
    return head
