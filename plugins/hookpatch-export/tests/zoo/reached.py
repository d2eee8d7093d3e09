"""Decisions reached from forward through files, methods, submodules, decorators, variables and attributes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zoo.animals import above, animal, below, rising
from zoo.other_file import checked, clipped, rows


@animal(above(4, 3), below(2, 3) / 2, reaches=(clipped, rows))
class CallsOtherFile(nn.Module):
    """Calls helpers of another file: a helper that decides, and a helper that returns a deciding value."""

    def forward(self, x: Tensor) -> Tensor:
        x = clipped(x)
        if rows(x) > 2:  # shape
            x = x + 1
        return x


@animal(above(4, 3), below(2, 3))
class CallsMethod(nn.Module):
    """Has a method that decides, and a property that returns a deciding value."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = True

    @property
    def doubles(self) -> bool:
        return self.deep

    def step(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x  # data

    def forward(self, x: Tensor) -> Tensor:
        if self.doubles:  # config
            x = self.step(x)
        return x


class Gate(nn.Module):
    """Decides in a submodule."""

    def forward(self, x: Tensor) -> Tensor:
        if (x > 0).any():  # data
            return x
        return -x


@animal(above(4, 3), below(2, 3), reaches=(Gate,))
class CallsSubmodule(nn.Module):
    """A submodule's forward decides, within a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(nn.Identity(), Gate())

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


@animal(rising(4, 3), rising(2, 3), reaches=(checked,))
class Decorated(nn.Module):
    """The decorator of forward decides."""

    @checked
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


@animal(above(4, 3), below(2, 3))
class ClosureAndLambda(nn.Module):
    """Functions made in forward decide."""

    def forward(self, x: Tensor) -> Tensor:
        limit = x.shape[0]

        def scale(y: Tensor) -> Tensor:
            return y * 2 if limit > 2 else y  # shape

        shift = lambda y: y + 1 if y.sum() > 0 else y  # noqa: E731  # data
        return shift(scale(x))


def powered(x: Tensor, times: int) -> Tensor:
    """Multiply a given number of times."""
    result = x
    for _ in range(times):  # shape
        result = result * x
    return result


@animal(above(4, 3), above(2, 3), reaches=(powered,))
class Partial(nn.Module):
    """Binds a size to a function before the call."""

    def forward(self, x: Tensor) -> Tensor:
        power = functools.partial(powered, times=x.shape[0])
        return power(x)


@dataclass
class Plan:
    """A plan with sizes."""

    rows: int
    columns: int


@animal(rising(4, 3), rising(2, 5))
class CarriedSize(nn.Module):
    """Passes a deciding size through a variable, a tuple, an attribute and a dataclass."""

    def forward(self, x: Tensor) -> Tensor:
        count, width = x.shape
        pair = (count, width)
        plan = Plan(*pair)
        if count * 2 > 6:  # shape
            x = x + 1
        if pair[1] > 4:  # shape
            x = x + 2
        if plan.rows > 3 and plan.columns > 2:  # shape
            x = x + 3
        return x


@animal(above(4, 3), above(2, 3))
class CarriedByAttribute(nn.Module):
    """Writes a size to self in a method, and reads the size in another method."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def measure(self, x: Tensor) -> None:
        self.rows = x.shape[0]  # call

    def forward(self, x: Tensor) -> Tensor:
        self.measure(x)
        if self.rows > 2:  # shape
            return x + 1
        return x


def loud(x: Tensor) -> Tensor:
    """Double all values if the greatest is positive."""
    return x * 2 if x.max() > 0 else x  # data


def calm(x: Tensor) -> Tensor:
    """Halve without a decision."""
    return x / 2


REGISTRY: dict[str, Callable[[Tensor], Tensor]] = {"loud": loud, "calm": calm}


@animal(above(4, 3), below(2, 3), reaches=(loud, calm))
class FromRegistry(nn.Module):
    """Calls a function read from a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.act = REGISTRY["loud"]

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.act(x))
