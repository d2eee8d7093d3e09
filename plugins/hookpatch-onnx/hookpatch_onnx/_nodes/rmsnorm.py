"""Recognize an RMSNorm, x * rsqrt(mean(x^2) + eps) * scale, by its results, whatever the name of the class.

Source of the formula: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019. Classes differ in the scale
(weight, 1 + weight as in Gemma, none), in eps, and in the rounding of half precision: before the scale is applied
(Llama) or afterwards (Gemma, torch.nn.RMSNorm). The variant is found by comparing results of a copy of the module.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch

Scale: TypeAlias = Literal["weight", "1 + weight", "1"]

_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_ULPS_THERE: Final = 16  # likewise, in the model: rounding of a mean over thousands of numbers goes further
_ULPS: Final = 4  # of the result's dtype, at most of float32: float64 models compute norms in float32, too


@dataclass(frozen=True)
class RMSNorm:
    """How a module normalizes an input of one dtype.

    Attributes:
        scale: the factor after the normalization.
        eps: the number added to the mean of the squares.
        axes: how many of the last axes the mean is taken over.
        rounds_first: True if the normalized value is rounded to the dtype of the input before scaling.
        dtype: the dtype of the result.
    """

    scale: Scale
    eps: float
    axes: int
    rounds_first: bool
    dtype: torch.dtype


def rmsnorms(module: torch.nn.Module) -> dict[torch.dtype, RMSNorm]:
    """Return how a module normalizes, for each dtype in which the module is an RMSNorm; empty if in none.

    Only a copy of the module is called, with random weights, since weights of one or zero show no scale.
    """
    weights = list(module.parameters(recurse=False))
    if len(weights) > 1 or any(True for _ in module.children()) or not (weights or _says_eps(module)):
        return {}
    if weights and weights[0].dim() != 1 and not isinstance(module, torch.nn.RMSNorm):
        return {}
    try:
        copied = copy.deepcopy(module).to(device="cpu")
    except Exception:  # a module that only normalizes can be copied
        return {}
    norms = {}
    generator = torch.Generator().manual_seed(0)
    shape = tuple(weights[0].shape) if weights else tuple(getattr(module, "normalized_shape", (16,)))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns if weight and input differ in dtype
        for weight in copied.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
        measured = _measured_eps(copied, shape)
        for dtype in _DTYPES:
            if (norm := _compare(copied, dtype, shape, generator, measured)) is not None:
                norms[dtype] = norm
    return norms


def why_no_rmsnorm(module: torch.nn.Module) -> str:
    """Return why a module that is called an RMSNorm is taken for none; empty for a module of another name."""
    if re.search("rms_?norm", type(module).__name__, re.IGNORECASE) is None:
        return ""
    own = dict(module.named_parameters(recurse=False))
    if len(own) > 1 or any(True for _ in module.children()):
        parts = [*own, *(name for name, _ in module.named_children())]
        return f"has more than one weight: {', '.join(parts)}"
    if not own and any(True for _ in module.buffers()):
        return f"has its weight in a buffer: {', '.join(name for name, _ in module.named_buffers())}"
    if own and (weight := next(iter(own.values()))).dim() != 1:
        return f"has a weight of shape {tuple(weight.shape)}"
    return "differs from the formula"


def _compare(
    module: torch.nn.Module,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    generator: torch.Generator,
    measured: list[float],
) -> RMSNorm | None:
    # The input is not centred, so that a LayerNorm differs; has several magnitudes, so that eps and a clamp show;
    # and has three axes or more, so that a normalization of channels differs, too.
    magnitudes = [1.0, 1e-2, 3e-3, 10.0, *([6.0, 60.0, 600.0, 6e3] if dtype == torch.float16 else [500, 5e3, 1e6, 1e9])]
    sizes = torch.tensor(magnitudes).reshape(4, 2, *[1] * len(shape))
    x = ((torch.randn(4, 2, *shape, generator=generator) + 0.5) * sizes).to(dtype)
    try:
        got = module(x)
    except Exception:  # the module takes other inputs
        return None
    weight = next(module.parameters(), None)
    if not isinstance(got, torch.Tensor) or got.shape != x.shape or got.dtype not in (dtype, _promoted(x, weight)):
        return None
    if dtype == torch.float16:
        x, got = _without_overflow(x, got, len(shape))
    best, least = None, float(_ULPS)
    for norm in _candidates(module, weight, dtype, shape, got.dtype, measured):
        worst = _distance(got, normalized(x, weight, norm)) / _rounding(got.dtype)
        if worst < least:
            best, least = norm, worst
    return best


def _without_overflow(x: torch.Tensor, got: torch.Tensor, axes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Leave out the large rows with a result of zero or no number: the squares are no numbers of half precision."""
    x, got = x.flatten(0, 1), got.flatten(0, 1)
    over = tuple(range(-axes, 0))
    lost = (got.isfinite().logical_not().amax(over)) | (got == 0).amin(over)
    kept = ~(lost & (x.abs().amax(over) > 200))
    return x[kept], got[kept]


def refuted(
    inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], module: torch.nn.Module, norm: RMSNorm
) -> str:
    """Return why the formula is not what a module computes for an input; empty if it is."""
    (got,) = outputs
    distance = _distance(got, normalized(inputs[0], next(module.parameters(), None), norm))
    if distance <= _ULPS_THERE * _rounding(got.dtype):
        return ""
    return f"differs from the formula for the inputs of this layer: {distance:.2g} of the result off"


def _distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference, relative to the result.

    Relative to at least the mean magnitude: rounding of large components may disturb a component near zero.
    """
    error = (got - wanted).abs() / wanted.abs().clamp(min=wanted.abs().nanmean())
    equal = (got == wanted) | (got.isnan() & wanted.isnan())
    return float(error.masked_fill(equal, 0).double().nan_to_num(nan=torch.inf).amax()) if got.numel() else 0.0


def _rounding(dtype: torch.dtype) -> float:
    return max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def normalized(x: torch.Tensor, weight: torch.Tensor | None, norm: RMSNorm) -> torch.Tensor:
    """Return the formula's result for an input of shape (..., *normalized axes)."""
    exact = x.float()
    mean = exact.pow(2).mean(tuple(range(-norm.axes, 0)), keepdim=True)
    exact = exact * torch.rsqrt(mean + norm.eps)
    if norm.scale == "1" or weight is None:
        return exact.to(norm.dtype)
    if norm.rounds_first:
        return (exact.to(x.dtype) * weight).to(norm.dtype)
    return (exact * (weight.float() + (norm.scale == "1 + weight"))).to(norm.dtype)


def _candidates(
    module: torch.nn.Module,
    weight: torch.Tensor | None,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    result: torch.dtype,
    measured: list[float],
) -> Iterator[RMSNorm]:
    own = [value for value in vars(module).values() if isinstance(value, float) and 0 <= value < 0.1]
    limits = [torch.finfo(dtype).eps, torch.finfo(torch.float32).eps] if _has_default_eps(module) else []
    scales: list[Scale] = ["1"] if weight is None else ["weight", "1 + weight", "1"]
    for eps in dict.fromkeys([*own, *limits, *measured]):
        for scale in scales:
            yield RMSNorm(scale, eps, len(shape), rounds_first=False, dtype=result)
            if scale == "weight" and dtype not in (torch.float32, torch.float64):
                yield RMSNorm(scale, eps, len(shape), rounds_first=True, dtype=result)


def _measured_eps(module: torch.nn.Module, shape: tuple[int, ...]) -> list[float]:
    """Return the eps of a module that computes the formula, to three digits, from two results in float32.

    For a small x the result is x * scale / sqrt(eps), for a large one x * scale / sqrt(mean(x^2)).
    """
    ones = torch.ones(1, 1, *shape)
    small, large = 1e-12, 1e4
    try:
        with_eps, without = module(ones * small), module(ones * large)
    except Exception:  # the module takes other inputs
        return []
    if not (isinstance(with_eps, torch.Tensor) and isinstance(without, torch.Tensor)):
        return []
    eps = float(((without * small) / with_eps).double().square().median())
    return [float(f"{eps:.3g}")] if 0 < eps < large else []


def _has_default_eps(module: torch.nn.Module) -> bool:
    return any(value is None for name, value in vars(module).items() if "eps" in name)


def _says_eps(module: torch.nn.Module) -> bool:
    return any("eps" in name for name in vars(module))


def _promoted(x: torch.Tensor, weight: torch.Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)
