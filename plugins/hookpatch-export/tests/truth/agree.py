"""Compare the answers of a capture with the answers of eager mode."""

from __future__ import annotations

from collections.abc import Callable

import torch

from truth.case import Case, Inputs, eager

Run = Callable[[Inputs], list[torch.Tensor]]


def disagreement(case: Case, run: Run, tolerance: float = 1e-3) -> str | None:
    """Return the difference from eager mode on the first input with a difference; None if all answers agree."""
    for number, inputs in enumerate(case.inputs, 1):
        wanted = eager(case.build(), inputs)
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                got = run({name: value.clone() for name, value in inputs.items()})
        except Exception as error:
            return f"input {number}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if problem := _difference(wanted, got, tolerance):
            return f"input {number}: {problem}"
    return None


def _difference(wanted: list[torch.Tensor], got: list[torch.Tensor], tolerance: float) -> str | None:
    if len(wanted) != len(got):
        return f"{len(got)} outputs, eager {len(wanted)}"
    for index, (expected, actual) in enumerate(zip(wanted, got, strict=True)):
        if expected.shape != actual.shape:
            return f"output {index}: shape {tuple(actual.shape)}, eager {tuple(expected.shape)}"
        expected, actual = expected.to(torch.complex128), actual.to(torch.complex128)
        if not torch.allclose(expected, actual, rtol=tolerance, atol=tolerance, equal_nan=True):
            apart = (expected - actual).abs().nan_to_num(torch.inf).max().item()
            return f"output {index}: values differ by up to {apart:.3g}"
    return None
