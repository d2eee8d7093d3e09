"""Comparisons as JSON; the README of the plugin has the schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from hookpatch_torchscript._runtimes.jobs.job import WARM_UP, Difference, Plan
from hookpatch_torchscript._runtimes.jobs.result import Comparison, Result

VERSION: Final = 1


def as_json(plan: Plan, comparisons: Sequence[Comparison], notes: Sequence[str]) -> dict[str, Any]:
    """Return comparisons as JSON can hold them.

    Args:
        plan: the plan of the measurement.
        comparisons: the comparisons.
        notes: the omitted modes and devices, with the reasons.
    """
    return {
        "version": VERSION,
        "factory": plan.factory,
        "method": {"seconds": plan.seconds, "repeat": plan.repeat, "warm_up": WARM_UP},
        "notes": list(notes),
        "settings": [
            {
                "device": comparison.setting.device,
                "dtype": comparison.setting.dtype,
                "batch": comparison.setting.batch,
                "machine": dict(comparison.machine),
                "results": [_result(comparison, result) for result in comparison.results],
            }
            for comparison in comparisons
        ],
    }


def _result(comparison: Comparison, result: Result) -> dict[str, Any]:
    return {
        "mode": result.mode,
        "status": result.status,
        "problem": result.problem,
        "preparation": result.preparation,
        "median": result.median,
        "quartiles": None if result.quartiles is None else list(result.quartiles),
        "blocks": result.blocks,
        "samples_per_second": comparison.throughput(result),
        "speed_up": comparison.speed_up(result),
        "memory": {"preparing": result.preparing, "running": result.running},
        "difference": None if result.difference is None else _difference(result.difference),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "output": difference.output,
        "absolute": _finite(difference.absolute),
        "relative": _finite(difference.relative),
        "tolerance": difference.tolerance,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
