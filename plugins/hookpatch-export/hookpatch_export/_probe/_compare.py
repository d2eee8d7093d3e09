"""Whether two answers agree, and where they differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

# Relative to the greatest magnitude of the answer: other orders of summation, other kernels.
_NEAR: Final = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float64: 1e-6}
_NEAR_FLOAT32: Final = 1e-3


def difference(eager: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> tuple[str, str] | None:
    """Return in words what differs in two answers, as (the one, the other); None if they agree."""
    if len(eager) != len(other):
        return f"{len(eager)} tensors", f"{len(other)}"
    for one, two in zip(eager, other, strict=True):
        if one.shape != two.shape and one.numel() + two.numel() > 2:  # a number may come as a tensor of one element
            return f"shape {list(one.shape)}", f"shape {list(two.shape)}"
        if (found := _values(one.reshape(-1), two.reshape(-1))) is not None:
            return found
    return None


def _values(one: torch.Tensor, two: torch.Tensor) -> tuple[str, str] | None:
    if one.is_complex() or two.is_complex():
        one, two = (torch.view_as_real(side.to(torch.complex128)).reshape(-1) for side in (one, two))
    if one.numel() == 0:
        return None
    near = max(_NEAR.get(side.dtype, _NEAR_FLOAT32) if side.is_floating_point() else 0.0 for side in (one, two))
    a, b = one.double(), two.double()
    finite = a[a.isfinite()].abs()
    scale = max(float(finite.max()), 1e-6) if finite.numel() else 1.0
    if torch.allclose(a, b, rtol=near, atol=near * scale, equal_nan=True):
        return None
    distance = (a - b).abs()
    distance[a.isnan() & b.isnan() | (a == b)] = 0.0
    at = int(distance.nan_to_num(nan=torch.inf, posinf=torch.inf).argmax())
    return _number(one[at]), _number(two[at])


def _number(value: torch.Tensor) -> str:
    number = value.item()
    return str(float(f"{number:.5g}")) if isinstance(number, float) else str(number)
