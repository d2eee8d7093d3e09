"""Code that looks like a decision but decides nothing, or decides alike in each call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from zoo.animals import above, animal, below, rising


@animal(rising(4, 3), rising(2, 3))
class Optional(nn.Module):
    """An argument that may be left out, the training flag, isinstance, hasattr."""

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is not None:  # safe
            x = x + bias
        if self.training:  # safe
            x = x * 0.9
        if isinstance(x, Tensor):  # safe
            x = x + 1
        return x


@animal(rising(4, 3), rising(2, 3))
class Configured(nn.Module):
    """Flags and names of the instance."""

    def __init__(self) -> None:
        super().__init__()
        self.branch_testing = True
        self.kind = "twice"

    def forward(self, x: Tensor) -> Tensor:
        if self.branch_testing == True:  # noqa: E712  # config
            x = x + 1
        x = x * 2 if self.kind == "twice" else x  # config
        return x


@animal(rising(4, 6), rising(2, 10))
class Arithmetic(nn.Module):
    """Uses sizes only in other sizes, slices and scales."""

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = x.shape[0], x.shape[1]
        half = columns // 2
        x = x.view(rows, 2, -1)
        x = x.reshape(rows, columns)[:, :half]
        y = torch.zeros(rows, half) + torch.arange(half)
        return (x + y) * columns**-0.5


@animal(rising(4, 6), rising(2, 6))
class SizesOfState(nn.Module):
    """The sizes of parameters, and of tensors computed from parameters alone, are constants."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(9, 6))
        self.register_buffer("order", torch.arange(9))

    def forward(self, x: Tensor) -> Tensor:
        rest = self.table[1:].unsqueeze(0).transpose(1, 2)
        side = int(rest.size(2) ** 0.5)
        if len(self.table) > 4 and self.order.shape[0] == rest.shape[2] + 1:  # config
            x = x + rest.reshape(6, side, -1).sum((1, 2))
        part = self.table[: x.shape[0]]
        if part.size(0) > 3:  # shape
            x = x * 2
        return x + part


@animal(above(4, 3), below(2, 3))
class Chosen(nn.Module):
    """torch.where, clamp and a comparison as a number: no decision of Python's."""

    def forward(self, x: Tensor) -> Tensor:
        x = torch.where(x > 0, x * 2, x)
        x = x.masked_fill(x < -1, 0.0)
        return x + (x.sum() > 0).to(x.dtype)


@animal(above(4, 3), below(2, 3))
class Cond(nn.Module):
    """torch.cond keeps both branches."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))


class Cut(torch.autograd.Function):
    """A function with a symbolic of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Relu", x)


@animal(rising(4, 3), rising(2, 3), reaches=(Cut,))
class WithSymbolic(nn.Module):
    """An autograd.Function with a symbolic."""

    def forward(self, x: Tensor) -> Tensor:
        return Cut.apply(x)


@animal(rising(4, 6), rising(2, 8))
class InPlace(nn.Module):
    """Writes to slices of a local tensor."""

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[:, ::2] = x[:, 1::2]
        out[:, 1::2] += x[:, ::2]
        out.mul_(2)
        return out
