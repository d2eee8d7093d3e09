"""Draw comparisons: a bar for each median with quartiles and figures, and the modes without figures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hookpatch_torchscript._runtimes.jobs.job import EAGER
from hookpatch_torchscript._runtimes.jobs.result import Comparison, Result
from hookpatch_torchscript._runtimes.show import figures
from hookpatch_torchscript.errors import RuntimesError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMS: Final = (".svg", ".png")
_INK: Final = "#1f2328"
_QUIET: Final = "#6e7781"
_BAD: Final = "#cf222e"
_EAGER: Final = "#afb8c1"
_BAR: Final = "#54aeff"
_BEST: Final = "#1a7f37"
_ROW: Final = 0.3  # inches
_ROOM: Final = 1.42  # times the longest bar: the figures need space
_LONGEST: Final = 68  # letters of a reason
_WORDS: Final = {"failed": "failed", "differs": "wrong answer"}
_STYLE: Final[Any] = {  # Any: matplotlib's type lists all names of settings
    "font.size": 9.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "svg.fonttype": "none",  # text stays text, which is a tenth of the size
    "svg.hashsalt": "hookpatch",
    "text.color": _INK,
}


def check(path: Path) -> None:
    """Check, before measuring, that a picture can be drawn.

    Raises:
        RuntimesError: the suffix is neither form, the folder does not exist, or matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMS:
        raise RuntimesError(f"--plot {path}", "is no picture's name; end it with .svg or .png")
    if not path.absolute().parent.is_dir():
        raise RuntimesError(f"--plot {path}", f"the folder {path.parent} does not exist; make the folder first")
    try:
        import matplotlib  # noqa: F401 - tried, not used
    except ImportError:
        raise RuntimesError(
            f"--plot {path}", "matplotlib is not installed: pip install 'hookpatch-torchscript[plot]'"
        ) from None


def draw(path: Path, title: str, panels: Sequence[tuple[str, Comparison]]) -> None:
    """Draw comparisons, each as a named panel, on a light background that also fits dark pages.

    Args:
        path: the picture, ``.svg`` or ``.png``.
        title: the title above the panels.
        panels: each name with its comparison; more than two panels are drawn in two columns.

    Raises:
        RuntimesError: the picture cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure

    across = 2 if len(panels) > 2 else 1
    lines = [panels[start : start + across] for start in range(0, len(panels), across)]
    heights = [max(len(comparison.results) for _, comparison in line) + 1.4 for line in lines]
    high = sum(heights) * _ROW + 0.8
    with matplotlib.rc_context({**_STYLE}):
        figure = Figure(figsize=(1.5 + 5.6 * across, high), facecolor="white")
        grid = figure.add_gridspec(
            len(lines),
            across,
            height_ratios=heights,
            left=1.15 / (1.5 + 5.6 * across),
            right=0.98,
            top=1 - 0.75 / high,
            bottom=0.4 / high,
            hspace=0.28,
            wspace=0.28,
        )
        for index, (name, comparison) in enumerate(panels):
            _panel(figure.add_subplot(grid[index // across, index % across]), name, comparison)
        figure.text(0.15 / (1.5 + 5.6 * across), 1 - 0.3 / high, title, size=12, weight="bold")
        machine = next((comparison.machine for _, comparison in panels if comparison.machine), {})
        caption = f"{figures.on(machine)} · median latency, line: middle half of the times; less is better"
        figure.text(0.15 / (1.5 + 5.6 * across), 0.12 / high, caption, size=7.5, color=_QUIET)
        try:
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise RuntimesError(f"--plot {path}", f"cannot be written: {error.strerror or error}") from None


def _panel(axes: Axes, name: str, comparison: Comparison) -> None:
    slowest = max((candidate.median or 0.0 for candidate in comparison.results), default=0.0)
    longest = min(max(map(_high, comparison.results)), 1.3 * slowest) or 1.0  # a line may be cut
    axes.set_xlim(0, longest * _ROOM)
    axes.set_ylim(len(comparison.results) - 0.4, -0.6)
    if comparison.fastest is not None:
        axes.text(longest * _ROOM, -0.75, "speed-up", va="bottom", ha="right", size=8, color=_QUIET)
    axes.set_title(name, loc="left", size=10, weight="bold", pad=4)
    axes.set_xticks([])
    axes.set_yticks(range(len(comparison.results)), [candidate.mode for candidate in comparison.results])
    axes.tick_params(axis="y", length=0, pad=6)
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_color(_EAGER)
    for index, result in enumerate(comparison.results):
        if result.median is None:
            colour = _BAD if result.status == "differs" else _QUIET
            text = textwrap.shorten(f"{_WORDS[result.status]}: {result.problem}", _LONGEST, placeholder=" ...")
            axes.text(longest * 0.015, index, text, va="center", size=8, style="italic", color=colour)
        else:
            _bar(axes, index, result, comparison, longest)


def _bar(axes: Axes, row: int, result: Result, comparison: Comparison, longest: float) -> None:
    best = result is comparison.fastest
    median = result.median or 0.0
    axes.barh(row, median, height=0.66, color=_BEST if best else _EAGER if result.mode == EAGER else _BAR, linewidth=0)
    if result.quartiles is not None:
        low, high = result.quartiles
        x, y = [low, low, low, min(high, longest)], [row - 0.13, row + 0.13, row, row]
        if high <= longest:
            x, y = [*x, high, high], [*y, row - 0.13, row + 0.13]
        axes.plot(x, y, color=_INK, linewidth=1.1, clip_on=False)
    end = min(_high(result), longest) + longest * 0.02
    axes.text(end, row, figures.seconds(result.median), va="center", weight="bold" if best else "normal")
    if result.mode != EAGER:
        ratio = figures.times(comparison.speed_up(result))
        axes.text(longest * _ROOM, row, ratio, va="center", ha="right", color=_BEST if best else _QUIET)


def _high(result: Result) -> float:
    return result.quartiles[1] if result.quartiles is not None else result.median or 0.0
