"""Format figures with three digits and a fitting unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookpatch_torchscript._runtimes.jobs.result import Result


def seconds(value: float | None) -> str:
    """Return a time: ``1.42 s``, ``12.3 ms``, ``856 µs``."""
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= 0.9995 * size:
            return f"{digits(value / size)} {unit}"
    return f"{digits(value * 1e6)} µs"


def size(value: int | None) -> str:
    """Return an amount of memory: ``1.21 GB``, ``85 MB``."""
    if value is None:
        return "-"
    return f"{digits(value / 1e9)} GB" if value >= 999.5e6 else f"{value / 1e6:.0f} MB"


def times(value: float | None) -> str:
    """Return a ratio: ``1.24x``."""
    return "-" if value is None else f"{digits(value)}x"


def digits(value: float | None) -> str:
    """Return a number with three digits, fewer below 1: ``1.24``, ``85.3``, ``1242``, ``0.54``."""
    if value is None:
        return "-"
    if value < 0.0995:
        return f"{value:.2g}"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def spread(result: Result) -> str:
    """Return the range of the middle half of the times."""
    return "-" if result.quartiles is None else seconds(result.quartiles[1] - result.quartiles[0])


def on(machine: Mapping[str, Any]) -> str:
    """Return a description of the machine in one line."""
    if not machine:
        return "the machine is not known: no process told"
    gpu = f"{machine['gpu']} (CUDA {machine['cuda']}) · " if "gpu" in machine else ""
    computing = f"{_counted(machine['cores'], 'core')}, {_counted(machine['threads'], 'thread')}"
    return f"{gpu}{machine['processor']}, {computing} · torch {machine['torch']} · Python {machine['python']}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
