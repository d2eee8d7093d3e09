"""Compare two answers, and find the greatest difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import torch

# Relative to the greatest magnitude of the answer: other orders of summation, other kernels.
_NEAR: Final = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float64: 1e-6}
_NEAR_FLOAT32: Final = 1e-3


@final
@dataclass(frozen=True)
class Tolerance:
    """The tolerance for equal answers.

    Attributes:
        rtol: relative to each element; None for the usual tolerance of the type.
        atol: absolute; None for ``rtol`` times the greatest magnitude of the answer.
    """

    rtol: float | None = None
    atol: float | None = None


@final
@dataclass(frozen=True)
class Difference:
    """The greatest difference of two answers.

    Attributes:
        eager: the eager side of the difference, in words: an element, a shape, a number of tensors.
        other: the other side.
        output: the index of the tensor in the answer, from 0.
        at: the element, None if the shapes differ.
        by: the greatest absolute difference, None likewise.
        count: how many elements differ, and of how many; None likewise.
    """

    eager: str
    other: str
    output: int = 0
    at: tuple[int, ...] | None = None
    by: float | None = None
    count: tuple[int, int] | None = None


def difference(
    eager: Sequence[torch.Tensor], other: Sequence[torch.Tensor], tolerance: Tolerance | None = None
) -> Difference | None:
    """Return the greatest difference in the first different tensor; None if two answers agree."""
    if len(eager) != len(other):
        return Difference(_many(len(eager)), _many(len(other)))
    for index, (expected, actual) in enumerate(zip(eager, other, strict=True)):
        # A number may come as a tensor of a single element.
        if expected.shape != actual.shape and not expected.numel() == actual.numel() == 1:
            return Difference(f"shape {list(expected.shape)}", f"shape {list(actual.shape)}", index)
        if (greatest := _values(expected, actual.reshape(expected.shape), index, tolerance or Tolerance())) is not None:
            return greatest
    return None


def _values(expected: torch.Tensor, actual: torch.Tensor, output: int, tolerance: Tolerance) -> Difference | None:
    if expected.is_complex() or actual.is_complex():
        expected, actual = (torch.view_as_real(side.to(torch.complex128)) for side in (expected, actual))
    if expected.numel() == 0:
        return None
    near = max(_NEAR.get(side.dtype, _NEAR_FLOAT32) if side.is_floating_point() else 0.0 for side in (expected, actual))
    near = near if tolerance.rtol is None else tolerance.rtol
    a, b = expected.double(), actual.double()
    finite = a[a.isfinite()].abs()
    scale = max(float(finite.max()), 1e-6) if finite.numel() else 1.0
    equal = torch.isclose(
        a, b, rtol=near, atol=near * scale if tolerance.atol is None else tolerance.atol, equal_nan=True
    )
    if equal.all():
        return None
    distance = (a - b).abs()
    distance[equal] = 0.0
    most = int(distance.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax())
    position = tuple(int(index) for index in torch.unravel_index(torch.tensor(most), expected.shape))
    count = (int((~equal).sum()), expected.numel())
    return Difference(
        _number(expected[position]), _number(actual[position]), output, position, float(distance[position]), count
    )


def _many(tensors: int) -> str:
    return f"{tensors} tensor{'s' * (tensors != 1)}"


def _number(value: torch.Tensor) -> str:
    number = value.item()
    return str(float(f"{number:.5g}")) if isinstance(number, float) else str(number)
