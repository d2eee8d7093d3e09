"""Show the findings in libraries: a line of text for each line of source, with a count, on the rest of a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from hookpatch_export._findings.finding import Finding, Kind
from hookpatch_export._show.format import by_consequence, count_by_kind, is_harmless, relative_path

COLOURS: Final = {
    Kind.DATA: "bold red",
    Kind.SHAPE: "bold yellow",
    Kind.NOT_READ: "bold magenta",
    Kind.CALL: "bold magenta",
    Kind.CONFIG: "bold blue",
    Kind.SAFE: "bold green",
}
_LINES: Final = 24  # lines of source shown; further lines are counted


def folded_lines(findings: Sequence[Finding], width: int | None) -> Iterator[Text]:
    """Yield the lines, in the order of data, sizes, and fixed code; within a kind in the order of the scan.

    Args:
        findings: the findings in libraries.
        width: the width of a line; None for a log, in which lines are not cut.
    """
    if not findings:
        return
    rows: dict[tuple[object, ...], list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: -finding.kind):
        rows.setdefault((finding.kind, finding.file, finding.line), []).append(finding)
    yield Text(
        "In libraries, each line of source once (--all: all calls that lead to the lines, and the consequences)",
        style="bold",
    )
    shown = list(rows.values())[:_LINES]
    longest = max(len(_place(row[0])) for row in shown)
    for (kind, becomes), alike in _by_meaning(shown).items():
        yield Text.assemble("  ", (str(kind), COLOURS[kind]), f"  {becomes}", no_wrap=True)
        for row in alike:
            yield _row(row, longest)
    hidden = [finding for row in list(rows.values())[_LINES:] for finding in row]
    if hidden:
        lines = len(rows) - len(shown)
        yield Text(f"    {lines} more line{'s' * (lines != 1)} ({count_by_kind(hidden)}): --all", style="dim")
    yield Text()


def _row(row: Sequence[Finding], longest: int) -> Text:
    first = row[0]
    times = f"  {len(row)} times" if len(row) > 1 else ""
    place = _place(first).ljust(longest)
    return Text.assemble("    ", (place, "cyan"), f"  {first.source}", (times, "dim"), no_wrap=True)


def _place(finding: Finding) -> str:
    return f"{relative_path(finding.file)}:{finding.line}"


def _by_meaning(rows: Sequence[list[Finding]]) -> dict[tuple[Kind, str], list[list[Finding]]]:
    """Return the rows by kind and consequence, the worst kind first."""
    groups: dict[tuple[Kind, str], list[list[Finding]]] = {}
    for row in rows:
        groups.setdefault((row[0].kind, _becomes(row[0])), []).append(row)
    return groups


def _becomes(finding: Finding) -> str:
    """Return the consequence for a line in the first mode that harms the line."""
    harms = [(modes, text) for modes, text in by_consequence(finding.consequence) if not is_harmless(text)]
    return "".join(f"{modes}: {text}" for modes, text in harms[:1])
