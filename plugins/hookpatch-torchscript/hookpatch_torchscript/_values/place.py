"""A line of source, as reports name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source.

    Attributes:
        file: the path, as Python has it.
        line: the line number, from 1.
        code: the text, stripped.
    """

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
