"""What an RMSNorm is: x * rsqrt(mean(x^2) + eps) * scale, whatever its class is called.

Source of the formula: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019. Classes differ in what scales
(the weight, 1 + weight as in Gemma, nothing), in eps, and in whether half precision is rounded before the scale is
applied (Llama) or after it (Gemma, torch.nn.RMSNorm). Each is found by comparing what a copy of the module computes.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch

Scale: TypeAlias = Literal["weight", "1 + weight", "1"]

_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_USUAL_EPS: Final = (1e-5, 1e-6, 1e-8, 1e-12)  # for those who write it into their forward
_ULPS: Final = 4  # of the result's dtype, float32 at most: float64 models compute their norms in float32, too


@dataclass(frozen=True)
class RMSNorm:
    """How a module normalizes an input of one dtype.

    Attributes:
        scale: what scales.
        eps: what is added to the mean of the squares.
        axes: over how many axes, the last ones, the mean is taken.
        rounds_first: whether what is normalized is rounded to the input's dtype before it is scaled.
        dtype: the result's.
    """

    scale: Scale
    eps: float
    axes: int
    rounds_first: bool
    dtype: torch.dtype


def rmsnorms(module: torch.nn.Module) -> dict[torch.dtype, RMSNorm]:
    """Return how a module normalizes inputs of each dtype, in which it is an RMSNorm; of anything else nothing.

    The module itself is not called: a copy of it is, with random weights, since ones and zeros tell nothing.
    """
    weights = list(module.parameters(recurse=False))
    if len(weights) > 1 or any(True for _ in module.children()) or not (weights or _says_eps(module)):
        return {}
    if weights and weights[0].dim() != 1 and not isinstance(module, torch.nn.RMSNorm):
        return {}
    try:
        copied = copy.deepcopy(module).to(device="cpu")
    except Exception:  # what cannot be copied is nothing that only normalizes
        return {}
    found = {}
    generator = torch.Generator().manual_seed(0)
    shape = tuple(weights[0].shape) if weights else tuple(getattr(module, "normalized_shape", (16,)))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says when weight and input differ in dtype: the model may never do that
        for weight in copied.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
        for dtype in _DTYPES:
            if (norm := _compare(copied, dtype, shape, generator)) is not None:
                found[dtype] = norm
    return found


def _compare(
    module: torch.nn.Module, dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator
) -> RMSNorm | None:
    # Not centred, so that a LayerNorm is another; and of several sizes, so that eps shows.
    # Of three axes and more, so that one that normalizes channels is another, too.
    sizes = torch.tensor([1.0, 1e-2, 3e-3, 10.0]).reshape(2, 2, *[1] * len(shape))
    x = ((torch.randn(2, 2, *shape, generator=generator) + 0.5) * sizes).to(dtype)
    try:
        got = module(x)
    except Exception:  # it takes something else
        return None
    weight = next(module.parameters(), None)
    if not isinstance(got, torch.Tensor) or got.shape != x.shape or got.dtype not in (dtype, _promoted(x, weight)):
        return None
    best, least = None, float(_ULPS)
    for norm in _candidates(module, weight, dtype, len(shape), got.dtype):
        wanted = normalized(x, weight, norm)
        # By the magnitude of the row: a component near zero may be off by the rounding of its neighbours.
        error = ((got - wanted).abs() / wanted.abs().clamp(min=wanted.abs().mean())).double()
        worst = float(error.max() / max(torch.finfo(got.dtype).eps, torch.finfo(torch.float32).eps))
        if worst < least:
            best, least = norm, worst
    return best


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
    module: torch.nn.Module, weight: torch.Tensor | None, dtype: torch.dtype, axes: int, result: torch.dtype
) -> Iterator[RMSNorm]:
    own = [value for value in vars(module).values() if isinstance(value, float) and 0 <= value < 0.1]
    limits = [torch.finfo(dtype).eps, torch.finfo(torch.float32).eps] if _has_default_eps(module) else []
    scales: list[Scale] = ["1"] if weight is None else ["weight", "1 + weight", "1"]
    for eps in dict.fromkeys([*own, *limits] or _USUAL_EPS):
        for scale in scales:
            yield RMSNorm(scale, eps, axes, rounds_first=False, dtype=result)
            if scale == "weight" and dtype not in (torch.float32, torch.float64):
                yield RMSNorm(scale, eps, axes, rounds_first=True, dtype=result)


def _has_default_eps(module: torch.nn.Module) -> bool:
    return any(value is None for name, value in vars(module).items() if "eps" in name)


def _says_eps(module: torch.nn.Module) -> bool:
    return any("eps" in name for name in vars(module))


def _promoted(x: torch.Tensor, weight: torch.Tensor | None) -> torch.dtype:
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)
