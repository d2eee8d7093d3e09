"""A model of the zoo: a class, inputs for forward, and marked lines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from truth.case import Case, Refused

MARK: Final = re.compile(r"#\s*(data|shape|config|safe|call)\s*$")
Made = tuple[torch.Tensor, ...]
_ANIMALS: dict[str, Animal] = {}


@dataclass(frozen=True)
class Animal:
    """A model of the zoo.

    Attributes:
        of: the model's class, made without arguments.
        inputs: the arguments of each call of forward, with other shapes or values each time.
        reaches: functions and classes outside of the class that forward calls.
    """

    of: type[torch.nn.Module]
    inputs: tuple[Made, ...]
    reaches: tuple[Any, ...]

    def marks(self) -> dict[tuple[str, int], str]:
        """Return the marks by file and line, in the class and in the called functions and classes."""
        marks = {}
        for part in (self.of, *self.reaches):
            lines, first = inspect.getsourcelines(part)
            for number, line in enumerate(lines, first):
                if mark := MARK.search(line):
                    marks[inspect.getfile(part), number] = mark[1]
        return marks


def animal(*inputs: Made | torch.Tensor, reaches: tuple[Any, ...] = ()) -> Callable[[type], type]:
    """Return a decorator that adds a class to the zoo, with inputs of forward."""

    def add(of: type) -> type:
        _ANIMALS[of.__name__] = Animal(
            of, tuple(arguments if isinstance(arguments, tuple) else (arguments,) for arguments in inputs), reaches
        )
        return of

    return add


def animals() -> dict[str, Animal]:
    """Return all models of the zoo, by name."""
    return dict(_ANIMALS)


def case(name: str) -> Case:
    """Return the case of a model of the zoo.

    Raises:
        Refused: the zoo has no model of the name.
    """
    if name not in _ANIMALS:
        raise Refused(f"the zoo has no {name}")
    member = _ANIMALS[name]
    names = list(inspect.signature(member.of.forward).parameters)[1:]

    def build() -> torch.nn.Module:
        torch.manual_seed(0)
        return member.of().eval()

    return Case(f"zoo:{name}", build, [dict(zip(names, arguments, strict=False)) for arguments in member.inputs])


def rising(*shape: int, start: float = -1.0, end: float = 1.0) -> torch.Tensor:
    """Return a tensor of values from start to end."""
    return torch.linspace(start, end, torch.Size(shape).numel()).reshape(shape)


def above(*shape: int) -> torch.Tensor:
    """Return a tensor of positive values."""
    return rising(*shape, start=0.5, end=2.0)


def below(*shape: int) -> torch.Tensor:
    """Return a tensor of negative values."""
    return -above(*shape)
