"""Print tables and colours, by rich: imported by a command at the first print."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hookpatch.errors import printable

if TYPE_CHECKING:
    from hookpatch._inspect.check import Checked

NO_WRAP: Final[Mapping[str, Any]] = {"no_wrap": True}  # for the columns of print_table
FOLD: Final[Mapping[str, Any]] = {"overflow": "fold"}


class Output(Console):
    """Stdout for a person: control characters in names, arguments and messages of others are escaped.

    NO_COLOR leaves out bold and dim, too. A pipe is as wide as its lines.
    """

    def __init__(self) -> None:
        super().__init__()
        if not self.is_terminal:
            self.width = _OF_A_PIPE

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the printed segments."""
        for segment in super().render(renderable, options):
            style = None if self.no_color else segment.style
            yield segment if segment.control else Segment(printable(segment.text), style)


_OF_A_PIPE: Final = 100_000


def print_table(
    console: Console, columns: Mapping[str, Mapping[str, Any]], rows: Iterable[Iterable[RenderableType]]
) -> None:
    """Print a table with a box on a terminal, and without in a log."""
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for title, options in columns.items():
        table.add_column(title, **(options if console.is_terminal else NO_WRAP))
    for row in rows:
        table.add_row(*map(_breakable, row) if console.is_terminal else row)
    console.print(table)


def _breakable(cell: RenderableType) -> RenderableType:
    """Return a cell with overlong lines broken behind a separator of a path or an address."""
    text = Text(cell) if isinstance(cell, str) else cell
    return _Breakable(text) if isinstance(text, Text) else cell


class _Breakable:
    """A text with overlong words broken behind ``/``, ``:``, ``.`` and ``,``."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self._text.split("\n", allow_blank=True):
            for word in re.finditer(r"\S+", line.plain):
                if len(word[0]) > options.max_width:
                    line = _broken(line, options.max_width)
                    break
            yield line


def _broken(line: Text, width: int) -> Text:
    """Return a line with line breaks, with no part longer than a width; broken behind separators if possible."""
    start, breaks, plain = 0, [], line.plain
    while len(plain) - start > width:
        ends = [match.end() for match in re.finditer(r"[/:.,\s]", plain[start : start + width])]
        start += ends[-1] if ends else width
        breaks.append(start)
    return Text("\n").join(part for part in line.divide(breaks))


def spinner(message: str) -> AbstractContextManager[object]:
    """Show a message with a spinner on stderr while a block runs; only if stderr is a terminal."""
    return Console(stderr=True).status(message) if sys.stderr.isatty() else nullcontext()


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


def print_targets(console: Console, targets: Sequence[Checked]) -> None:
    """Print a table of targets, then the source diffs of the changed targets."""
    print_table(console, dict.fromkeys(("target", "installed", "verdict"), FOLD), map(_row, targets))
    for target in targets:
        if target.diff:
            console.print(Text(f"\n{target.target}", style="bold"))
            for line in target.diff:
                style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
                console.print(Text(line, style=style), soft_wrap=True)


def _row(checked: Checked) -> tuple[Text, str, Text]:
    target = Text("\n").join([Text(checked.target, style="cyan"), *map(Text, checked.patches)])
    locked = f"\nlocked {checked.locked}" if checked.locked not in (None, checked.release) else ""
    words, style = WORDS[checked.status]
    warnings = (Text(warning, style="yellow") for warning in checked.warnings)
    verdict = Text("\n").join([Text(words, style=style), *map(Text, checked.reasons), *warnings])
    return target, f"{checked.release or 'no distribution'}{locked}", verdict
