"""Compare a mode's answer with eager's answer."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from hookpatch_torchscript._runtimes.jobs.job import Difference

# Relative to the greatest magnitude in an output: modes differ in kernels, order of summation, rounding.
TOLERANCES: Final = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class OtherAnswerError(Exception):
    """An answer has another number of tensors, or a tensor of another shape, so no difference can be computed."""


def tensors(answer: Any) -> list[tuple[str, Tensor]]:
    """Return the tensors of an answer with their names, in order: of tuples, dicts, ``ModelOutput``.

    Other parts of an answer (None, numbers) are not compared, since modes differ in returning them.
    """
    leaves, _ = pytree.tree_flatten_with_path(answer)
    return [(_name(path), leaf.detach().to("cpu", copy=True)) for path, leaf in leaves if isinstance(leaf, Tensor)]


def difference(eager: list[tuple[str, Tensor]], answer: list[tuple[str, Tensor]]) -> Difference:
    """Return the greatest difference of two answers, by the tolerance of the type.

    Tensors are paired by order and named as in eager's answer. Integers and booleans have the tolerance 0.

    Raises:
        OtherAnswerError: the shapes differ.
    """
    if len(eager) != len(answer):
        raise OtherAnswerError(f"eager returns {_counted(len(eager))}, the mode {_counted(len(answer))}")
    if not eager:
        raise OtherAnswerError("eager returns no tensor to compare")
    return max(
        (_difference_of(name, expected, actual) for (name, expected), (_, actual) in zip(eager, answer, strict=True)),
        key=_badness,
    )


def _difference_of(name: str, eager: Tensor, actual: Tensor) -> Difference:
    if eager.shape != actual.shape:
        raise OtherAnswerError(
            f"{name}: eager's shape is {list(eager.shape)}, the mode's shape is {list(actual.shape)}"
        )
    exact = not (eager.is_floating_point() or eager.is_complex())
    tolerance = (
        0.0 if exact else max(TOLERANCES.get(tensor.dtype, TOLERANCES[torch.float32]) for tensor in (eager, actual))
    )
    wide = torch.complex128 if eager.is_complex() or actual.is_complex() else torch.float64
    a, b = eager.to(wide), actual.to(wide)
    apart = (a - b).abs()
    apart[(a == b) | (a.isnan() & b.isnan())] = 0.0  # equal infinities, and NaN in both
    apart = apart.nan_to_num(nan=torch.inf, posinf=torch.inf)
    size = a.abs()[a.isfinite()]
    scale = float(size.max()) if size.numel() else 0.0
    absolute = float(apart.max()) if apart.numel() else 0.0
    relative = 0.0 if absolute == 0 else absolute / scale if scale else torch.inf
    return Difference(name, absolute, relative, tolerance)


def _badness(gap: Difference) -> tuple[bool, float]:
    return gap.relative > gap.tolerance, gap.relative


def _counted(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


def _name(path: tuple[Any, ...]) -> str:
    parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
    return ".".join(f"[{part}]" if part.isdigit() else part for part in parts) or "output"
