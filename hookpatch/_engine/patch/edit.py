"""The declaration of a change of source text: a piece and the new text, or a diff."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any, Final, final

_HUNK: Final = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")
_HEADERS: Final = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "old mode", "new mode", "similarity")


@final
@dataclass(frozen=True, slots=True)
class Edit:
    """A change of source text. Frozen.

    Attributes:
        pieces: the pieces to replace, each with the new text.
        count: the expected number of occurrences of a piece; None for once.
        is_diff: True if the pieces are the hunks of a diff: whole lines.
        within: of a method, the qualified name of the class whose source is searched for the pieces; else empty.
        values: of a method, the class's new values by name, for the method's defaults; None to keep the defaults.
    """

    pieces: tuple[tuple[str, str], ...]
    count: int | None = None
    is_diff: bool = False
    within: str = ""
    values: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return "; ".join(f"{old.strip()!r} -> {new.strip()!r}" for old, new in self.pieces)


def hunks(diff: str) -> tuple[tuple[str, str], ...]:
    """Return the lines before and after each hunk of a unified diff; line numbers do not count.

    Raises:
        ValueError: the text is no unified diff, or changes nothing.
    """
    line_pairs: list[tuple[list[str], list[str]]] = []
    for line in (line.removesuffix("\r") for line in dedent(diff).strip("\n").split("\n")):
        if _HUNK.match(line.strip()):
            line_pairs.append(([], []))
        elif line.lstrip().startswith("@@"):
            raise ValueError(f"the line {line.strip()!r} is no head of a hunk such as '@@ -1,3 +1,4 @@'")
        elif not line_pairs:
            if line.strip() and not line.lstrip().startswith(_HEADERS):
                raise ValueError(f"the line {line.strip()!r} stands before the first '@@ -1,3 +1,4 @@'")
        elif line.startswith(("\\", "diff ")):
            continue
        elif line[:1] in (" ", "-", "+") or not line:
            mark, text = line[:1] or " ", line[1:]
            for lines, sign in zip(line_pairs[-1], ("+", "-"), strict=True):
                if mark != sign:
                    lines.append(text)
        else:
            raise ValueError(f"the line {line!r} begins with none of ' ', '-' and '+'")
    pairs = tuple(("\n".join(before).strip("\n"), "\n".join(after).strip("\n")) for before, after in line_pairs)
    if not pairs or any(before == after for before, after in pairs):
        raise ValueError("it has no hunk" if not pairs else "a hunk of the diff changes nothing")
    if not all(before.strip() for before, _ in pairs):
        raise ValueError("a hunk has no line of the old source, and its place is unknown")
    return pairs
