"""Recognize a tanh-approximated GELU, x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2, by its results.

Source of the formula: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ULPS: Final = 4  # of half precision, where a formula that is written out rounds at each step
_TOLERANCE: Final = 1e-5  # of float32, for inputs up to 20: the exact GELU is 5e-4 away, QuickGELU 2e-2


def writes_out_gelu(module: torch.nn.Module) -> bool:
    """Return True if a module writes out the formula, whatever the name of the class.

    Only a copy of the module is called. A module that calls torch's own GELU is one node without any plugin.
    """
    if any(True for _ in (*module.children(), *module.parameters(), *module.buffers())):
        return False
    if type(module).__module__.startswith("torch.nn."):
        return False
    large = torch.tensor([30.0, 100.0, 1e3, 1e4, 1e6, 1e9])  # a clamp before or behind the formula shows
    x = torch.cat([torch.linspace(-20, 20, 4001), large, -large])
    try:
        with torch.no_grad(), _Operators() as used:
            y = copy.deepcopy(module)(x)
    except Exception:  # the module takes other inputs
        return False
    if not isinstance(y, torch.Tensor) or y.shape != x.shape or torch.ops.aten.gelu.default in used.operators:
        return False
    error = (y - torch.nn.functional.gelu(x, approximate="tanh")).abs() / (x.abs() / 20).clamp(min=1)
    return bool(error.max() < _TOLERANCE)


def refuted(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> str:
    """Return why the formula is not what a module computes for an input; empty if it is."""
    (x,), (got,) = inputs, outputs
    if got.shape != x.shape or got.dtype != x.dtype:
        return "returns another shape or dtype than it takes"
    error = (got - torch.nn.functional.gelu(x, approximate="tanh")).double().abs() / x.double().abs().clamp(min=1)
    error = error.masked_fill(got.isnan() & x.isnan(), 0).nan_to_num(nan=torch.inf)
    worst = float(error.amax()) if error.numel() else 0.0
    if worst <= max(_TOLERANCE, _ULPS * torch.finfo(x.dtype).eps):
        return ""
    return f"differs from the formula for the inputs of this layer: {worst:.2g} off"


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch gives its mode no types
    """Note the operators that torch calls."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.operators: set[object] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.operators.add(func)
        return func(*args, **(kwargs or {}))
