"""A case: a model to be captured, with a function that builds the model, and inputs for the model's forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

Inputs = dict[str, torch.Tensor]  # by the name of forward's parameter


class Refused(Exception):
    """A model that cannot be judged, with the reason."""


@dataclass(frozen=True)
class Case:
    """A model, and inputs that the model accepts in eager mode.

    Attributes:
        name: the name in tables.
        build: makes the model, always with the same weights, in eval mode.
        inputs: the capture's example, and further inputs; other shapes and other values both occur.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: list[Inputs]

    @property
    def dynamic(self) -> dict[str, list[int]]:
        """Return the dimensions with different sizes among the inputs, by name."""
        first, *further = self.inputs
        return {
            name: [i for i, size in enumerate(value.shape) if any(inputs[name].shape[i] != size for inputs in further)]
            for name, value in first.items()
        }


def eager(model: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """Return a model's output tensors, flat, with the same random numbers each time."""
    torch.manual_seed(0)
    with torch.no_grad():
        return tensors(model(**{name: value.clone() for name, value in inputs.items()}))


def tensors(output: Any) -> list[torch.Tensor]:
    """Return the tensors in a model's output, in the order of the fields."""
    if isinstance(output, dict):  # a ModelOutput, which pytree may not know
        output = [value for value in output.values() if value is not None]
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
