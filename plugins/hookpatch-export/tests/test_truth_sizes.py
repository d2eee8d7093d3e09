"""The truth takes sizes that no input can change for constants, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from truth.watch import watched

pytestmark = pytest.mark.model
LAYER = nn.Linear(6, 8)
CONV = nn.Conv1d(6, 12, 3, padding=1)


def last_of_a_layer(x: Tensor) -> Tensor:
    return LAYER(x)


def heads(x: Tensor) -> Tensor:
    return LAYER(x).view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)


def heads_by_the_rest(x: Tensor) -> Tensor:
    return LAYER(x).view(*x.shape[:-1], -1, 4).transpose(1, 2)


def one_row(x: Tensor) -> Tensor:
    return LAYER(x).view(x.shape[0] * x.shape[1], -1)


def channels(x: Tensor) -> Tensor:
    return CONV(x.transpose(1, 2))


def queries(x: Tensor) -> Tensor:
    return LAYER.weight.unsqueeze(0).repeat(x.shape[0], 1, 1)


def added(x: Tensor) -> Tensor:
    return LAYER(x) + LAYER.bias


def half_of_the_rows(x: Tensor) -> Tensor:
    return x[:, : x.shape[1] // 2]


def first_rows(x: Tensor) -> Tensor:
    return x[:, :3]


def chosen(x: Tensor) -> Tensor:
    return x[x > 0]


def pooled(x: Tensor) -> Tensor:
    return nn.functional.adaptive_avg_pool1d(x, 2)


def stacked(x: Tensor) -> Tensor:
    return torch.stack((x[..., 0], x[..., 1]), -1)


CONSTANT = [
    (last_of_a_layer, {2}),
    (heads, {1, 3}),
    (heads_by_the_rest, {1, 3}),
    (one_row, set()),  # not known: a size and a product of sizes change apart
    (channels, {1}),
    (queries, {1, 2}),
    (added, {2}),
    (half_of_the_rows, set()),
    (first_rows, set()),
    (chosen, set()),
    (pooled, {2}),
    (stacked, {2}),
]


@pytest.mark.parametrize(("compute", "constant"), CONSTANT, ids=[compute.__name__ for compute, _ in CONSTANT])
def test_constant_sizes(compute: Callable[[Tensor], Tensor], constant: set[int]) -> None:
    """A decision by a size is recorded for the axes that an input can change, and for these alone."""
    model = nn.ModuleList([LAYER, CONV])
    decided = set()
    for axis in range(compute(torch.ones(3, 5, 6)).ndim):
        x = torch.ones(3, 5, 6)
        with watched(model, [x]) as seen, torch.no_grad():
            if compute(x).shape[axis] > 1000:
                raise AssertionError
        if seen.shape:
            decided.add(axis)

    assert decided == set(range(compute(torch.ones(3, 5, 6)).ndim)) - constant
