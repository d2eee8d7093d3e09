"""A stand-in for the module of another device: 104 functions named as in torch.cuda.

Each returns "npu" and the name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch.cuda


def named(name: str) -> Callable[..., str]:
    def function(*args: Any, **kwargs: Any) -> str:
        return f"npu.{name}"

    function.__name__ = name
    return function


NAMES = [name for name in torch.cuda.__all__ if callable(getattr(torch.cuda, name, None))]
sys.modules["npu.npu"] = npu = ModuleType("npu.npu")
npu.__all__ = NAMES[:104]
vars(npu).update({name: named(name) for name in NAMES[:104]})
