"""Show findings as text: grouped by function, each with its line and a caret, equal consequences once."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from hookpatch_export._findings.finding import Finding, Kind
from hookpatch_export._show.folded import COLOURS, folded_lines
from hookpatch_export._show.format import (
    by_consequence,
    count_by_kind,
    format_place,
    format_route,
    is_of_library,
    relative_path,
)


def print_lines(lines: Iterable[Text], console: Console) -> None:
    """Print lines: in a terminal coloured and cut at its edge, in a log plain and whole."""
    for line in lines:
        line.rstrip()
        if console.is_terminal:
            console.print(line, no_wrap=line.no_wrap, overflow="ellipsis" if line.no_wrap else None)
        else:
            console.file.write(f"{line.plain}\n")


def width_of(console: Console) -> int | None:
    """Return the width of a line of text; None for a log, in which lines are not wrapped."""
    return console.width if console.is_terminal else None


def report(
    findings: Sequence[Finding], level: Kind, silenced: int, name: str, width: int | None, everything: bool = False
) -> Iterator[Text]:
    """Yield the lines to show in a terminal or a log: the user's files first, then the lines of libraries.

    Args:
        findings: the findings, those of a function next to each other.
        level: the least kind to show; others are counted.
        silenced: the number of findings that comments have silenced.
        name: the model that was scanned.
        width: see ``width_of``.
        everything: True to show each finding in full, in the order of the scan.
    """
    shown = [finding for finding in findings if finding.kind >= level]
    folded = [] if everything else [finding for finding in shown if is_of_library(finding.file)]
    whole = shown if everything else [finding for finding in shown if not is_of_library(finding.file)]
    groups = [list(group) for _, group in groupby(whole, key=lambda finding: (finding.file, finding.route))]
    if not everything:  # sorting is stable: the order of the scan holds among findings of one kind
        groups = sorted((_worst_first(group) for group in groups), key=lambda group: -group[0].kind)
    for group in groups:
        first = group[0]
        yield Text(format_route(first.route) if first.route else relative_path(first.file), style="bold")
        yield from _function(group, width)
    yield from folded_lines(folded, width)
    yield _summary(findings, shown, silenced, name)


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: -finding.kind)


def _function(findings: Sequence[Finding], width: int | None) -> Iterator[Text]:
    """Yield the lines of a function's findings; neighbours with equal consequences share one explanation."""
    for _, group in groupby(findings, key=_meaning):
        alike = list(group)
        for _, repeats in groupby(alike, key=lambda finding: (finding.line, finding.kind, finding.construct)):
            yield from _line(list(repeats))
        yield from _consequence_lines(alike[0], width)
        yield Text()


def _meaning(finding: Finding) -> object:
    return finding.kind, tuple(finding.consequence.items()), finding.instead


def _line(findings: Sequence[Finding]) -> Iterator[Text]:
    first = findings[0]
    spans = {(finding.column, finding.end_line, finding.end_column) for finding in findings}
    yield Text.assemble(
        "  ",
        (format_place(first), "cyan"),
        "  ",
        (str(first.kind), COLOURS[first.kind]),
        f"  {first.construct}",
        (f"  {len(spans)} times" if len(spans) > 1 else "", "dim"),
    )
    if first.source:
        yield Text(f"    {first.source}", no_wrap=True)
        yield Text(f"    {_carets(findings)}".rstrip(), style=COLOURS[first.kind], no_wrap=True)


def _carets(findings: Sequence[Finding]) -> str:
    """Return the line under the source, with a caret under each character of a finding."""
    source, indent = findings[0].source, _indent(findings[0])
    marked: set[int] = set()
    for finding in findings:
        end = finding.end_column if finding.end_line == finding.line else len(source) + indent + 1
        marked.update(range(finding.column - 1 - indent, max(end - 1 - indent, finding.column - indent)))
    return "".join(("^" if index in marked else " ") * cell_len(letter) for index, letter in enumerate(source))


def _indent(finding: Finding) -> int:
    """Return the number of characters before ``source`` in the line of the file."""
    try:
        line = finding.file.read_text(encoding="utf-8").splitlines()[finding.line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return 0
    return len(line) - len(line.lstrip())


def _consequence_lines(finding: Finding, width: int | None) -> Iterator[Text]:
    rows = [(modes, text, "") for modes, text in by_consequence(finding.consequence)]
    if finding.instead:
        rows.append(("instead", finding.instead, "green"))
    if not rows:
        return
    first = max(len(modes) for modes, _, _ in rows)
    for modes, text, style in rows:
        pieces = textwrap.wrap(text, max(width - first - 8, 20)) if width is not None else [text]
        for index, piece in enumerate(pieces):
            yield Text.assemble("      ", ((modes if index == 0 else "").ljust(first), "dim"), "  ", (piece, style))


def _summary(findings: Sequence[Finding], shown: Sequence[Finding], silenced: int, name: str) -> Text:
    hidden = [finding for finding in findings if finding not in shown]
    worst = COLOURS[max(finding.kind for finding in shown)] if shown else "bold green"
    return Text.assemble(
        (f"{name}: ", "bold"),
        (count_by_kind(shown) or "nothing found", worst),
        f"; not shown: {count_by_kind(hidden)} (--level {min(finding.kind for finding in hidden)})" if hidden else "",
        f"; silenced by comments: {silenced}" if silenced else "",
    )
