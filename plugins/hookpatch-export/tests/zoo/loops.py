"""Loops: while, for over sizes, over tensors, over layers; comprehensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.animals import above, animal, rising


@animal(above(4, 3), above(2, 3) / 8)
class WhileOnValue(nn.Module):
    """Halves the input until the values are small."""

    def forward(self, x: Tensor) -> Tensor:
        while x.max() > 1:  # data
            x = x / 2
        return x


@animal(rising(4, 3), rising(2, 5))
class ForOverSize(nn.Module):
    """Does a step for each row."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[1])
        for i in range(x.shape[0]):  # shape
            total = total * 0.5 + x[i]
        return total


@animal(rising(4, 3), rising(2, 5))
class ForOverTensor(nn.Module):
    """Walks through the rows."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[1])
        for row in x:  # shape
            total = total * 0.5 + row
        return total


@animal(rising(4, 3), rising(2, 5))
class Unpacked(nn.Module):
    """Fills containers from a tensor, row by row, without an explicit loop."""

    def forward(self, x: Tensor) -> Tensor:
        rows = list(x)  # shape
        total = torch.stack([*x]).sum(0) + rows[0]  # shape
        numbered = dict(enumerate(x))  # shape
        pairs = list(enumerate(x))  # shape
        return total + numbered[0] + pairs[0][1]


@animal((rising(4, 3), above(4, 3)), (rising(2, 5), above(2, 5)))
class ForOverTwo(nn.Module):
    """Walks through two tensors at once, and through one with a number."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros(x.shape[1])
        for first, second in zip(x, y, strict=True):  # shape
            total = total + first * second
        for number, row in enumerate(x):  # shape
            total = total + number * row
        return total


@animal(rising(4, 6), rising(2, 9))
class ForOverPieces(nn.Module):
    """Walks through the pieces of a split. The size decides the number of pieces."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[0], 1)
        for piece in x.split(3, dim=1):  # shape
            total = total * 2 + piece.sum(1, keepdim=True)
        for column in x.unbind(1):  # shape
            total = total + column[:, None]
        return total


@animal(rising(4, 3), rising(2, 3))
class ForOverLayers(nn.Module):
    """Walks through the model's layers, alike in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:  # safe
            x = torch.relu(layer(x))
        for number, layer in enumerate(self.layers):  # safe
            x = layer(x) + number
        return x


@animal(rising(4, 3), rising(2, 3))
class ForOverConfig(nn.Module):
    """Does a configured number of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 3

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.steps):  # config
            x = x * 0.5 + 1
        return x


@animal(rising(4, 3), rising(2, 5))
class Comprehensions(nn.Module):
    """Loops within an expression."""

    def forward(self, x: Tensor) -> Tensor:
        rows = [row.sum() for row in x]  # shape
        halves = [x[i] / 2 for i in range(x.size(0))]  # shape
        return torch.stack(rows) + torch.stack(halves).sum(1)


@animal((above(4, 3), torch.tensor(3)), (above(2, 3), torch.tensor(1)))
class ForOverValue(nn.Module):
    """As many steps as a tensor says."""

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        for _ in range(int(times)):  # data
            x = x * 2
        return x


@animal(rising(4, 5), rising(2, 7))
class RecurrentCell(nn.Module):
    """A cell stepped by hand through the columns: the loop of a recurrent net."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps = x.shape
        state = x.new_zeros(batch, 2)
        for step in range(steps):  # shape
            state = self.cell(x[:, step : step + 1], state)
        return state


@animal(rising(4, 3), rising(2, 5))
class ListOfNumbers(nn.Module):
    """Makes a list with a number for each row, and a tuple of the rows."""

    def forward(self, x: Tensor) -> Tensor:
        places = list(range(len(x)))  # shape
        rows = tuple(x)  # shape
        return torch.stack(rows) * len(places)


@animal(rising(4, 3), rising(2, 5))
class ListAsLongAsASize(nn.Module):
    """Multiplies lists by a size. The lengths are decided there, and decide nothing on later lines."""

    def forward(self, x: Tensor) -> Tensor:
        sides = [(x.shape[1], 1)] * x.shape[0]  # shape
        signs = [1]
        signs *= x.shape[0]  # shape
        rows = [row * 2 for row in x]  # shape
        for wide, high in sides:  # safe
            x = x * wide * high
        if len(rows) == len(signs):  # config
            x = torch.stack([row + 1 for row in rows])  # config
        return x
