"""Findings for a person: grouped by function, each with its line and a caret, the consequences said once."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from hookpatch_export._finding import Finding, Kind
from hookpatch_export._words import counted, joined, near, place, way

COLOURS: Final = {
    Kind.DATA: "bold red",
    Kind.SHAPE: "bold yellow",
    Kind.NOT_READ: "bold magenta",
    Kind.CALL: "bold magenta",
    Kind.CONFIG: "bold blue",
    Kind.SAFE: "bold green",
}


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines: a terminal gets source cut at its edge, a log all of it, and plain."""
    for line in lines:
        line.rstrip()
        if console.is_terminal:
            console.print(line, no_wrap=line.no_wrap, overflow="ellipsis" if line.no_wrap else None)
        else:
            console.file.write(f"{line.plain}\n")


def width_of(console: Console) -> int | None:
    """Return how wide a line of words may be; None for a log, which gets each as one."""
    return console.width if console.is_terminal else None


def report(findings: Sequence[Finding], level: Kind, silenced: int, name: str, width: int | None) -> Iterator[Text]:
    """Yield the lines that a terminal or a log is to show.

    Args:
        findings: what was found, that of a function together.
        level: the least kind that is shown; others are counted.
        silenced: how many findings comments have silenced.
        name: the model that was scanned.
        width: see ``width_of``.
    """
    shown = [one for one in findings if one.kind >= level]
    for (file, route), group in groupby(shown, key=lambda one: (one.file, one.route)):
        yield Text(way(route) if route else near(file), style="bold")
        yield from _function(list(group), width)
    yield _summary(findings, shown, silenced, name)


def _function(findings: Sequence[Finding], width: int | None) -> Iterator[Text]:
    """Yield the lines of a function; of those that stand together and mean the same, what they mean once."""
    for _, group in groupby(findings, key=_meaning):
        alike = list(group)
        for _, same in groupby(alike, key=lambda one: (one.line, one.kind, one.construct)):
            yield from _line(list(same))
        yield from _told(alike[0], width)
        yield Text()


def _meaning(finding: Finding) -> object:
    return finding.kind, tuple(finding.consequence.items()), finding.instead


def _line(same: Sequence[Finding]) -> Iterator[Text]:
    first = same[0]
    spans = {(one.column, one.end_line, one.end_column) for one in same}
    yield Text.assemble(
        "  ",
        (place(first), "cyan"),
        "  ",
        (str(first.kind), COLOURS[first.kind]),
        f"  {first.construct}",
        (f"  {len(spans)} times" if len(spans) > 1 else "", "dim"),
    )
    if first.source:
        yield Text(f"    {first.source}", no_wrap=True)
        yield Text(f"    {_carets(same)}".rstrip(), style=COLOURS[first.kind], no_wrap=True)


def _carets(same: Sequence[Finding]) -> str:
    """Return the line under the source with a caret under each character of what was found."""
    source, indent = same[0].source, _indent(same[0])
    found: set[int] = set()
    for one in same:
        end = one.end_column if one.end_line == one.line else len(source) + indent + 1
        found.update(range(one.column - 1 - indent, max(end - 1 - indent, one.column - indent)))
    return "".join(("^" if at in found else " ") * cell_len(letter) for at, letter in enumerate(source))


def _indent(finding: Finding) -> int:
    """Return how many characters of the file's line stand before ``source``."""
    try:
        line = finding.file.read_text(encoding="utf-8").splitlines()[finding.line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return 0
    return len(line) - len(line.lstrip())


def _told(finding: Finding, width: int | None) -> Iterator[Text]:
    rows = [(modes, what, "") for modes, what in joined(finding.consequence)]
    if finding.instead:
        rows.append(("instead", finding.instead, "green"))
    if not rows:
        return
    first = max(len(modes) for modes, _, _ in rows)
    for modes, what, style in rows:
        pieces = textwrap.wrap(what, max(width - first - 8, 20)) if width is not None else [what]
        for at, piece in enumerate(pieces):
            yield Text.assemble("      ", ((modes if at == 0 else "").ljust(first), "dim"), "  ", (piece, style))


def _summary(findings: Sequence[Finding], shown: Sequence[Finding], silenced: int, name: str) -> Text:
    more = [one for one in findings if one not in shown]
    worst = COLOURS[max(one.kind for one in shown)] if shown else "bold green"
    return Text.assemble(
        (f"{name}: ", "bold"),
        (counted(shown) or "nothing found", worst),
        f"; not shown: {counted(more)} (--level {min(one.kind for one in more)})" if more else "",
        f"; silenced by comments: {silenced}" if silenced else "",
    )
