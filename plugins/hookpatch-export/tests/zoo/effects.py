"""Effects that a capture runs once or never: print, random numbers, writes to self and to a global."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor, nn

from zoo.animals import animal, rising

CALLS = 0


@animal(rising(4, 3), rising(2, 3))
class Prints(nn.Module):
    """Prints the mean of the input."""

    def forward(self, x: Tensor) -> Tensor:
        print("mean", x.mean())  # call
        return x + 1


@animal(rising(4, 3), rising(2, 3))
class PythonRandom(nn.Module):
    """Draws random numbers outside of torch."""

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
    """Counts the calls, and keeps the last input."""

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
    """Counts the calls in a global."""

    def forward(self, x: Tensor) -> Tensor:
        global CALLS
        CALLS += 1  # call
        return x + CALLS
