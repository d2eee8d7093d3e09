"""Map lines to logical lines: a statement over several lines is one line, also the head of an ``if`` or a match."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from truth.frames import Place


def logical(place: Place) -> Place:
    """Return the first line of the innermost statement at a line."""
    return Place(place.file, _starts(place.file).get(place.line, place.line))


def text(place: Place) -> str:
    """Return the source of a line, without indentation."""
    lines = _lines(place.file)
    return lines[place.line - 1].strip() if place.line <= len(lines) else ""


@cache
def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


@cache
def _starts(file: str) -> dict[int, int]:
    """Return the first line of the innermost statement, by line. ast.walk yields outer statements before inner ones."""
    starts: dict[int, int] = {}
    for node in ast.walk(ast.parse("\n".join(_lines(file)))):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            starts |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.lineno)
        if isinstance(node, ast.Match):  # the patterns of the cases count as the line of the match
            for case in node.cases:
                starts |= dict.fromkeys(range(case.pattern.lineno, (case.pattern.end_lineno or 0) + 1), node.lineno)
    return starts
