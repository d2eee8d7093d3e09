"""What a capture runs once, or not at all: print, random numbers, writes to self and to a global."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor, nn

from zoo.animals import animal, rising

CALLS = 0


@animal(rising(4, 3), rising(2, 3))
class Prints(nn.Module):
    """Prints what it is given."""

    def forward(self, x: Tensor) -> Tensor:
        print("mean", x.mean())  # call
        return x + 1


@animal(rising(4, 3), rising(2, 3))
class PythonRandom(nn.Module):
    """Numbers that torch does not know of."""

    def forward(self, x: Tensor) -> Tensor:
        x = x * random.random()  # call
        return x + float(np.random.rand())  # call


@animal(rising(4, 3), rising(2, 3))
class TorchRandom(nn.Module):
    """Noise of torch's own: an operator like others."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


@animal(rising(4, 3), rising(2, 3))
class WritesSelf(nn.Module):
    """Counts its calls, and keeps what it last saw."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1  # call
        self.last = x  # call
        return x + self.calls


@animal(rising(4, 3), rising(2, 3))
class WritesGlobal(nn.Module):
    """Counts its calls in a global."""

    def forward(self, x: Tensor) -> Tensor:
        global CALLS
        CALLS += 1  # call
        return x + CALLS
