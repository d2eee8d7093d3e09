"""Shared parts of the benchmarks: modules to patch, times of interleaved rounds, and a table with the goals."""

from __future__ import annotations

import gc
import itertools
import platform
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from time import process_time
from timeit import Timer
from types import ModuleType
from typing import Any, Final

_numbers: Final = itertools.count()


def vendor(source: str) -> ModuleType:
    """Return a new module of this source, imported under a unique name."""
    module = ModuleType(f"vendor{next(_numbers)}")
    exec(source, vars(module))
    sys.modules[module.__name__] = module
    return module


def timer(statement: str, **names: Any) -> Timer:
    """Return a timer of a statement, with the garbage collector on as a part of the cost of a patch.

    The timer measures processor time, so other work on the machine does not count.
    """
    return Timer(statement, "import gc; gc.enable()", process_time, names)


def times_of(timers: Mapping[str, Timer], rounds: int = 100, seconds: float = 0.005) -> dict[str, list[float]]:
    """Return the times of each statement in seconds, one for each round. The statements take turns.

    Garbage of one statement is collected before the next statement is timed.
    """
    numbers = {}
    for name, timer in timers.items():
        number, elapsed = timer.autorange()
        numbers[name] = max(1, round(number * seconds / elapsed))
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            gc.collect(1)
            times[name].append(timer.timeit(numbers[name]) / numbers[name])
    return times


def compare(times: Mapping[str, Sequence[float] | None], goals: Mapping[str, float]) -> None:
    """Print the median of each name, and the ratio of the first to each other.

    Args:
        times: the result of ``times_of``, by name; None if a tool is not installed.
        goals: by name, the greatest wanted ratio of the first to the named statement.
    """
    ours, *_ = times.values()
    assert ours is not None  # hookpatch is always measured
    unit, scale = ("ns", 1e9) if median(ours) < 1e-6 else ("µs", 1e6)
    for name, measured in times.items():
        if measured is None:
            print(f"  {name:<36}  not installed")
            continue
        line = f"  {name:<36} {median(measured) * scale:9.1f} {unit}"
        if measured is not ours:
            of_it = ratio(ours, measured)
            line += f"  {of_it:6.2f} of it  {verdict(of_it, goals.get(name))}"
        print(line.rstrip())


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios within a round: a changing clock slows both statements equally."""
    return median(own / compared for own, compared in zip(ours, theirs, strict=True))


def verdict(measured: float, goal: float | None) -> str:
    """Return the text of a goal and whether the goal was met."""
    return "" if goal is None else f"goal {goal:.2f}  {'met' if measured <= goal else 'NOT MET'}"


def heading(text: str) -> None:
    """Print the title of a measurement, and the Python version."""
    print(f"\n{text} ({platform.python_implementation()} {platform.python_version()})")


def table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with right-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
