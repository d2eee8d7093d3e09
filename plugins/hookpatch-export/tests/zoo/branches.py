"""Decisions: if, elif, conditional expressions, assert, boolean shortcuts, match, try."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.animals import above, animal, below, rising


@animal(above(4, 3), below(2, 3))
class IfOnValue(nn.Module):
    """Decides by a sum, then by a maximum."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # data
            return x + 1
        elif x.max() < -3:  # data
            return x * 2
        return x - 1


@animal(rising(4, 3), rising(2, 5))
class IfOnSize(nn.Module):
    """Asks for sizes in all possible ways."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 2:  # shape
            x = x + 1
        if x.size(1) == 3:  # shape
            x = x * 2
        if x.size()[0] < 3:  # shape
            x = x - 1
        if len(x) > 3:  # shape
            x = x / 2
        return x


@animal(rising(4, 3), rising(2, 5))
class IfOnRankAndCount(nn.Module):
    """Asks for the rank, which every capture fixes, and for the number of elements."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:  # config
            x = x[None]
        if x.numel() > 11:  # shape
            x = x + 1
        if x.ndim > 3:  # config
            x = x[0]
        return x


@animal(above(4, 3), below(2, 3))
class Conditional(nn.Module):
    """Conditional expressions, one by value, one by size."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 2.0 if x.mean() > 0 else 3.0  # data
        shift = 1 if x.shape[0] > 2 else 0  # shape
        return x * scale + shift


@animal(above(4, 3), above(2, 3))
class Asserts(nn.Module):
    """Asserts a value, a size, and a setting."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 3

    def forward(self, x: Tensor) -> Tensor:
        assert x.min() > 0, "positive values alone"  # data
        assert x.shape[1] == self.width, f"{self.width} columns"  # shape
        assert self.width > 0  # config
        return x.log()


@animal((above(4, 3), above(4, 3)), (below(2, 3), above(2, 3)))
class Shortcuts(nn.Module):
    """``and``, ``or`` and ``not`` ask for the truth of a tensor."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = (x.sum() > 0) and (y.sum() > 0)  # data
        either = (x.sum() > 0) or (y.sum() > 9)  # data
        neither = not (x > 0).any()  # data
        return x * both + y * either + neither


@animal(rising(1, 3), rising(2, 3), rising(5, 3))
class MatchOnSize(nn.Module):
    """A match on a size."""

    def forward(self, x: Tensor) -> Tensor:
        match x.shape[0]:  # shape
            case 1:
                return x
            case 2:
                return x * 2
            case _:
                return x * 3


@animal(above(4, 3), below(2, 3))
class TryOnValue(nn.Module):
    """Reads a value in a try block."""

    def forward(self, x: Tensor) -> Tensor:
        try:  # config
            scale = 1.0 / max(x.sum().item(), 0.0)  # data
        except ZeroDivisionError:
            scale = 0.0
        return x * scale


@animal(rising(4, 3), rising(2, 3))
class AlwaysTrue(nn.Module):
    """Checks conditions that hold for each input, but are still decisions on sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 3
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.width:  # shape
            raise ValueError("the wrong width")
        y = self.linear(x)
        if y.shape != x.shape:  # shape
            raise ValueError("the linear layer keeps the shape")
        return torch.relu(y)
