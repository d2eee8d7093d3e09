"""Import Liger's patches without triton, and give the kernels bodies in plain torch that note each run."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
import torch._inductor.utils  # before triton seems to be installed
import transformers.models.llama.modeling_llama  # noqa: F401  # likewise


class Stub(ModuleType):
    """A stand-in for a module, a decorator and a type: enough to define a kernel, but not to run a kernel."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", Stub(f"{self.__name__}.{name}"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) else Stub("made")

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return ()


for _name in ("triton", *(f"triton.{part}" for part in ("language", "language.math", "language.extra", "runtime"))):
    sys.modules[_name] = Stub(_name)
sys.modules["triton"].__version__ = "1.0"

from liger_kernel.transformers import monkey_patch, rms_norm, rope, swiglu  # noqa: E402  # after the stubs

RAN: set[str] = set()


class RMSNorm:
    @staticmethod
    def apply(x: Any, weight: Any, eps: float, offset: float, *how: Any) -> Any:
        RAN.add("norm")
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (offset + weight)


class SiLUMul:
    @staticmethod
    def apply(gate: Any, up: Any, *multipliers: float) -> Any:
        RAN.add("mlp")
        return torch.nn.functional.silu(gate) * up


def rotate(_name: str, query: Any, key: Any, cos: Any, sin: Any, _ids: Any, dimension: int) -> Any:
    RAN.add("rope")

    def turned(x: Any) -> Any:
        first, second = x.chunk(2, dim=-1)
        return x * cos.unsqueeze(dimension) + torch.cat((-second, first), dim=-1) * sin.unsqueeze(dimension)

    return turned(query), turned(key)


rms_norm.LigerRMSNormFunction, swiglu.LigerSiLUMulFunction, rope.dispatch = RMSNorm, SiLUMul, rotate

__all__ = ["RAN", "monkey_patch"]
