"""Print tables and colours. Without rich: its import and its layout take a third of the time of ``hookpatch list``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hookpatch._bootstrap.environment import read
from hookpatch.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from hookpatch._inspect.check import Checked

Cell: TypeAlias = Sequence[tuple[str, str]]  # texts, each on a line of its own and with a style
NO_WRAP: Final = 0  # for the columns of print_table
FOLD: Final = 100_000
_LEAST: Final = (16, 8)  # characters of a folded column, and of one on a narrow terminal
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def is_terminal() -> bool:
    """Return True if stdout is a terminal, or FORCE_COLOR wants it to be taken for one."""
    return bool(read("FORCE_COLOR")) or sys.stdout.isatty()


def paint(text: str, style: str) -> str:
    """Return a text in a style, such as ``bold red``, with the codes of a terminal; NO_COLOR leaves all codes out."""
    is_plain = read("NO_COLOR") or read("TERM") in ("dumb", "unknown") or os.name != "posix"
    if not (text and style) or is_plain or not is_terminal():
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def print_table(columns: Mapping[str, int], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table: within a terminal's width, and in a log with whole lines.

    Args:
        columns: the greatest width of each column on a terminal by its title; a column with NO_WRAP is never folded.
        rows: the cells of each row.
    """
    table = [[_lines(cell) for cell in row] for row in ([[(title, "bold")] for title in columns], *rows)]
    widths = [max(width_of(text) for cell in column for text, _ in cell) for column in zip(*table, strict=True)]
    if not is_terminal():
        for row in table:
            _print_row(row, widths, "  ")
        return
    widths = [min(width, most or width) for width, most in zip(widths, columns.values(), strict=True)]
    folded = [index for index, most in enumerate(columns.values()) if most]
    sizes = [[[width_of(text) for text, _ in cell] for cell in row] for row in table]

    def cost(index: int) -> tuple[int, int]:
        """Return the lines of the table with a column narrower by one, and the column's negative width."""
        narrowed = [width - (each == index) for each, width in enumerate(widths)]
        return sum(_height(row, narrowed) for row in sizes), -widths[index]

    while (length := sum(widths) + len(_GAP) * (len(widths) - 1)) >= get_terminal_size().columns:
        wide = next((wide for least in _LEAST if (wide := [each for each in folded if widths[each] > least])), ())
        if not wide:
            break
        widths[min(wide, key=cost)] -= 1
    dash = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" if "utf" in sys.stdout.encoding.lower() else "-"
    print()
    for row in table:
        _print_row([_folded(cell, width) for cell, width in zip(row, widths, strict=True)], widths, _GAP, " ")
        if row is table[0]:
            print("", dash * length)
    print()


_GAP: Final = "   "


def width_of(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # few texts need rich

    return cell_len(text)


def _height(row: Sequence[Sequence[int]], widths: Sequence[int]) -> int:
    """Return about how many lines a row takes: from the lengths of the lines of each cell."""
    return max(sum(max(1, -(-size // width)) for size in cell) for cell, width in zip(row, widths, strict=True))


def _lines(cell: Cell) -> Cell:
    """Return a cell with each line apart; control characters in texts of others are escaped."""
    return [(printable(line).expandtabs(), style) for text, style in cell for line in text.split("\n")] or [("", "")]


def _folded(cell: Cell, width: int) -> Cell:
    return [(part, style) for line, style in cell for part in _parts(line, width)]


def _parts(line: str, width: int) -> Iterator[str]:
    """Yield the parts of a line that fit a width: broken at a space, else behind a separator, else anywhere."""
    while width_of(line) > width:
        most = next(count for count in range(width, 0, -1) if width_of(line[:count]) <= width or count == 1)
        start = re.match(rf".{{0,{most - 1}}}\S(?=\s)|.{{1,{most}}}(?<=[/:.,])|.{{1,{most}}}", line)
        assert start is not None
        yield start[0]
        line = line[start.end() :].lstrip()
    yield line


def _print_row(row: Sequence[Cell], widths: Sequence[int], gap: str, indent: str = "") -> None:
    for line in zip_longest(*row, fillvalue=("", "")):
        texts = (
            paint(text, style) + " " * (width - width_of(text))
            for (text, style), width in zip(line, widths, strict=True)
        )
        print(f"{indent}{gap.join(texts)}".rstrip())


def print_line(*parts: tuple[str, str], indent: int = 0) -> None:
    """Print texts, each with its style, as one line; a line wider than the terminal continues indented."""
    line = "".join(text for text, _ in parts)
    if not is_terminal():
        print(" " * indent + line)
        return
    end = 0
    for piece in _parts(line, max(get_terminal_size().columns - indent, _LEAST[-1])):
        begin = line.index(piece, end)
        end, offset, painted = begin + len(piece), 0, ""
        for text, style in parts:
            painted += paint(text[max(begin - offset, 0) : max(end - offset, 0)], style)
            offset += len(text)
        print(" " * indent + painted)


@contextmanager
def progress(message: str) -> Iterator[None]:
    """Show a message on stderr while a block runs; only if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    shown = f"{message} ..."
    print(end=f"{shown}\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(end=f"{' ' * len(shown)}\r", file=sys.stderr, flush=True)


WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "fits": ("fits", "green"),
    "same": ("same", "green"),
    "compatible": ("changed, takes the same arguments", "yellow"),
    "unlocked": ("fits, not in the lock file", "yellow"),
    "skipped": ("does not fit, skipped", "yellow"),
    "changed": ("changed", "red"),
    "unfit": ("does not fit", "red"),
    "broken": ("cannot be imported", "red"),
    "gone": ("gone", "red"),
}


def print_targets(targets: Sequence[Checked]) -> None:
    """Print a table of targets, then the source diffs of the changed targets."""
    print_table(dict.fromkeys(("target", "installed", "verdict"), FOLD), map(_row, targets))
    for target in targets:
        if target.diff:
            print(f"\n{paint(printable(target.target), 'bold')}")
            for line in target.diff:
                print(paint(printable(line), {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")))


def _row(checked: Checked) -> tuple[Cell, Cell, Cell]:
    target = [(checked.target, "cyan"), *((patch, "") for patch in checked.patches)]
    installed = [(checked.release or "no distribution", "")]
    if checked.locked not in (None, checked.release):
        installed.append((f"locked {checked.locked}", ""))
    reasons = [*((reason, "") for reason in checked.reasons), *((warning, "yellow") for warning in checked.warnings)]
    return target, installed, [WORDS[checked.status], *reasons]


def output() -> Console:
    """Return a console of rich for what is no table.

    Control characters in names, arguments and messages of others are escaped. NO_COLOR leaves out bold and dim, too. A
    pipe is as wide as its lines.
    """
    from rich.console import Console  # here: tables do without
    from rich.segment import Segment

    class Output(Console):
        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **kwargs):
                style = None if self.no_color else segment.style
                yield segment if segment.control else Segment(printable(segment.text), style)

    console = Output()
    if not console.is_terminal:
        console.width = 100_000
    return console
