"""Measure the distance of two arrays, and judge it: equal, rounding, or different."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

import numpy

Verdict: TypeAlias = Literal["equal", "rounding", "differs"]

_ROUNDING: Final = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}  # of the largest value


@final
@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of two arrays of one shape.

    Attributes:
        largest: the largest difference of two elements; infinite if only one of the two is a number.
        relative: ``largest`` divided by the largest magnitude of a finite element.
        rounding: the relative distance up to which the dtype's rounding explains the difference; 0 for whole numbers.
    """

    largest: float
    relative: float
    rounding: float

    @property
    def verdict(self) -> Verdict:
        """What the number means."""
        return "equal" if not self.largest else "rounding" if self.relative <= self.rounding else "differs"

    @property
    def words(self) -> str:
        """The distance for a reader: relative to the largest value."""
        if not self.largest:
            return "equal"
        return f"{self.relative:.2g} apart" + (" (rounding)" if self.verdict == "rounding" else "")


def distance(before: Any, after: Any) -> Distance | None:
    """Return the distance of two arrays; None if the shapes differ, or if an array holds no numbers."""
    try:
        ours, theirs = numpy.asarray(before), numpy.asarray(after)
        if ours.shape != theirs.shape or "O" in (ours.dtype.kind, theirs.dtype.kind):
            return None
        wide = numpy.complex128 if "complex" in f"{ours.dtype}{theirs.dtype}" else numpy.float64
        mine, its = (numpy.atleast_1d(array).astype(wide) for array in (ours, theirs))
    except (TypeError, ValueError):
        return None
    rounding = max(_ROUNDING.get(str(array.dtype), 0.0) for array in (ours, theirs))
    with numpy.errstate(invalid="ignore", over="ignore"):
        apart = numpy.abs(mine - its)
    apart[(mine == its) | (numpy.isnan(mine) & numpy.isnan(its))] = 0  # two infinities differ by NaN
    apart[numpy.isnan(apart)] = math.inf
    largest = float(apart.max(initial=0))
    finite = [numpy.abs(array[numpy.isfinite(array)]).max(initial=0) for array in (mine, its)]
    magnitude = float(max(finite))
    return Distance(largest, largest / magnitude if magnitude else math.inf if largest else 0.0, rounding)
