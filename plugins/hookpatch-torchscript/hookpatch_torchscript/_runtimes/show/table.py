"""Print a comparison: a table, bars, and the modes without figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from hookpatch_torchscript._runtimes.jobs.job import MODES
from hookpatch_torchscript._runtimes.jobs.result import Comparison, Result
from hookpatch_torchscript._runtimes.show import figures

_LOG_WIDTH: Final = 120  # without a terminal
_ROOMY: Final = 96  # columns that a table with differences needs
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_NAME: Final = max(map(len, MODES))
_COLOURS: Final = {"failed": "yellow", "differs": "bold red"}
_NOISY: Final = 0.25  # of the median; torch.utils.benchmark calls an IQR so wide significant environmental influence
_WHY_NOISY: Final = "one block alone, or an IQR above 25 %; let the machine be quiet, or give --seconds, --repeat more"
_WORDS: Final = {"failed": "failed", "differs": "WRONG"}


def console() -> Console:
    """Return the console: in the width of the terminal, else of a log."""
    output = Console(highlight=False)
    return output if output.is_terminal else Console(highlight=False, width=_LOG_WIDTH)


def show(comparison: Comparison, out: Console) -> None:
    """Print a comparison; into a log no line is wrapped.

    Args:
        comparison: the modes of one setting.
        out: see ``console``.
    """
    for part in _parts(comparison, out.width, out.is_terminal):
        out.print(part, soft_wrap=not out.is_terminal)


def _parts(comparison: Comparison, width: int, wrapped: bool) -> Iterator[RenderableType]:
    yield Text(f"\n{comparison.setting}", style="bold")
    timed = [result for result in comparison.results if result.median is not None]
    if timed:
        yield Text()
        yield _table(comparison, timed, width >= _ROOMY)
        yield Text()
        yield from _bars(comparison, timed, min(width, _ROOMY))
    failed = [result for result in comparison.results if result.median is None]
    if failed:
        yield Text()
    for result in failed:
        head = Text.assemble(result.mode.ljust(_NAME), "  ", (_WORDS[result.status], _COLOURS[result.status]), "  ")
        if wrapped:
            grid = Table.grid()
            grid.add_row(head, Text(result.problem or "", overflow="fold"))
            yield grid
        else:
            yield head + Text(result.problem or "")
    noisy = [
        result.mode for result in timed if result.quartiles is None or _range(result) > _NOISY * (result.median or 0.0)
    ]
    if noisy:
        yield Text(f"\nuncertain  {', '.join(noisy)}: {_WHY_NOISY}", style="yellow")


def _table(comparison: Comparison, timed: list[Result], roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("\nmode")
    heads = ["\nprepare", "latency\nmedian", "\nIQR", "samples\n/ s", "\nspeed-up", "peak memory\nprepare", "\nrun"]
    for head in [*heads, *(["differs\nby"] if roomy else [])]:
        table.add_column(head, justify="right", no_wrap=True)
    for result in timed:
        best = result is comparison.fastest
        apart = result.difference.absolute if result.difference is not None else None
        cells = [
            figures.seconds(result.preparation),
            figures.seconds(result.median),
            figures.spread(result),
            figures.digits(comparison.throughput(result)),
            figures.times(comparison.speed_up(result)),
            _added_size(result.preparing),
            _added_size(result.running),
            *(["-" if apart is None else f"{apart:.0e}" if apart else "0"] if roomy else []),
        ]
        table.add_row(Text(result.mode, "cyan"), *cells, style="bold green" if best else "")
    return table


def _bars(comparison: Comparison, timed: list[Result], width: int) -> Iterator[RenderableType]:
    """Yield a bar for each median, with a thin line to the upper quartile."""
    longest = min(max(map(_high, timed)), 1.3 * max(result.median or 0.0 for result in timed))  # a line may be cut
    room = width - _NAME - 22
    for result in timed:
        best = result is comparison.fastest
        median, high = ((value or 0.0) / longest * room for value in (result.median, _high(result)))
        whole, part = divmod(max(round(median * 8), 1), 8)
        bar = "█" * whole + (_EIGHTHS[part] if part else "")
        line = "─" * max(min(round(high), room) - len(bar), 0)
        yield Text.assemble(
            (result.mode.ljust(_NAME), "cyan"),
            "  ",
            (bar, "green" if best else "blue"),
            (line, "dim"),
            f" {figures.seconds(result.median)}",
            (f"  {figures.times(comparison.speed_up(result))}", "bold green" if best else "dim"),
        )


def _range(result: Result) -> float:
    return result.quartiles[1] - result.quartiles[0] if result.quartiles is not None else 0.0


def _high(result: Result) -> float:
    return result.quartiles[1] if result.quartiles is not None else result.median or 0.0


def _added_size(value: int | None) -> str:
    return "-" if value is None else f"+{figures.size(value)}"
