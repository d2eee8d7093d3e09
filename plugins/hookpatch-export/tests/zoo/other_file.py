"""Functions called by models in other files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor


def clipped(x: Tensor) -> Tensor:
    """Clip by a decision on a value, far from any forward."""
    if x.abs().max() > 1.5:  # data
        return x.clamp(-1, 1)
    return x


def rows(x: Tensor) -> int:
    """Return a size for a later decision."""
    return x.shape[0]


def checked(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a forward with a look at the first input's size."""

    @functools.wraps(forward)
    def wrapper(self: Any, x: Tensor, *inputs: Any) -> Any:
        if x.size(0) > 3:  # shape
            x = x * 2
        return forward(self, x, *inputs)

    return wrapper
