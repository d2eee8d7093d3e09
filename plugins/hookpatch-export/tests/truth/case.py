"""A model whose capture is judged: how it is built, and inputs that it accepts."""

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
    """A model and inputs that it accepts in eager mode.

    Attributes:
        name: what it is called in tables.
        build: makes it, always with the same weights, in eval mode.
        inputs: the first is captured with; one at least has other shapes, one other values.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: list[Inputs]

    @property
    def dynamic(self) -> dict[str, list[int]]:
        """The dimensions that differ between the inputs, by name."""
        first, *others = self.inputs
        return {
            name: [i for i, size in enumerate(value.shape) if any(one[name].shape[i] != size for one in others)]
            for name, value in first.items()
        }


def eager(model: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """The tensors that a model returns, flat; the same random numbers each time."""
    torch.manual_seed(0)
    with torch.no_grad():
        return tensors(model(**{name: value.clone() for name, value in inputs.items()}))


def tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of what a model returned, in the order of its fields."""
    if isinstance(output, dict):  # ModelOutput, whatever pytree knows of it
        output = [value for value in output.values() if value is not None]
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
