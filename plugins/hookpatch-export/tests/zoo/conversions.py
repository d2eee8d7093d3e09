"""Tensors that become Python numbers, lists and arrays, and operators whose result's size hangs on values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from zoo.animals import above, animal, below, rising


@animal(above(4, 3), below(2, 3))
class ToNumbers(nn.Module):
    """item, float, int and bool."""

    def forward(self, x: Tensor) -> Tensor:
        a = x.sum().item()  # data
        b = float(x.mean())  # data
        c = int(x.max() * 10)  # data
        d = bool((x > 0).all())  # data
        return x * a + b + c + d


@animal(above(4, 3), below(2, 3))
class Formatted(nn.Module):
    """Formats a message of a check in each call."""

    def forward(self, x: Tensor) -> Tensor:
        message = f"the sum is {x.sum()}"  # data
        del message
        return x * 2


@animal(above(4, 3), below(2, 3))
class NumberUsedLater(nn.Module):
    """Converts a tensor to a number that decides on a later line."""

    def forward(self, x: Tensor) -> Tensor:
        level = x.mean().item()  # data
        high = level * 2
        if high > 1:  # data
            return x - high
        return x


@animal(torch.tensor([1, 2, 1]), torch.tensor([2, 4]))
class ToList(nn.Module):
    """Sizes read from a tensor split another."""

    def forward(self, sizes: Tensor) -> Tensor:
        counts = sizes.tolist()  # data
        parts = torch.arange(10.0)[: sum(counts)].split(counts)  # data
        return parts[0].sum() + parts[1]


@animal(above(4, 3), below(2, 3))
class ThroughNumPy(nn.Module):
    """Out to NumPy and back."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.square(x.detach().numpy()))  # data


@animal(rising(4, 3), rising(2, 5))
class Selected(nn.Module):
    """Results as large as the values say."""

    def forward(self, x: Tensor) -> Tensor:
        where = torch.nonzero(x > 0)  # data
        positive = x[x > 0]  # data
        also = torch.masked_select(x, x < 0.5)  # data
        apart = torch.unique(x.round())  # data
        return torch.cat([where.flatten().float(), positive, also, apart])


@animal((rising(4, 3), torch.tensor([1, 2])), (rising(2, 5), torch.tensor([2, 1])))
class WidthsInTensors(nn.Module):
    """Paddings, shifts and sizes that are numbers in tensors, one by one or by keyword."""

    def forward(self, x: Tensor, widths: Tensor) -> Tensor:
        left, right = widths[0], widths[1]
        x = nn.functional.pad(x, (left, 1))  # data
        x = nn.functional.pad(x, pad=[0, right], mode="constant")  # data
        x = x.roll((left,), (1,))  # data
        x = torch.tile(x, (1, right))  # data
        return nn.functional.interpolate(x[None], size=(left + 3,))  # data


@animal(rising(4, 3), rising(2, 5))
class SizeToNumber(nn.Module):
    """Converts a size by int() and float(), which lose the size."""

    def forward(self, x: Tensor) -> Tensor:
        rows = int(x.shape[0])  # shape
        scale = float(x.shape[1])  # shape
        return x.sum(1) * scale + torch.ones(rows)
