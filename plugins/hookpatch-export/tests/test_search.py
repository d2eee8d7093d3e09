"""The search tries changes, finds disagreements, reduces the inputs, and spends no random number."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy
import pytest
import torch
from hookpatch_export import partings
from hookpatch_probe.changes import applied, sizes, words
from hookpatch_probe.compare import Difference, Tolerance, difference
from hookpatch_probe.example import Example, Run, flat
from hookpatch_probe.search import Search
from hookpatch_probe.seed import seeded
from torch import Tensor

pytestmark = pytest.mark.model


def searched(model: Callable[..., Tensor], frozen: Callable[..., Tensor], *args: Tensor) -> Search:
    def run(called: Callable[..., Tensor]) -> Run:
        return lambda tensors: flat(called(*tensors))

    search = Search(Example(model, args, {}), run(model), {"frozen": run(frozen)}, lambda tried: tried >= 60)
    search.run()
    return search


def smallest(search: Search) -> str:
    return words(search.smaller("frozen", [*search.disagreements, *search.refusals][0].changes))


def test_least_size_is_found() -> None:
    """The least size is found above and below the example's size, for a different answer and for an error."""
    example = torch.full((4, 6), 5.0)
    above = searched(lambda x: x + (x.shape[1] > 13), lambda x: x, example)
    assert smallest(above) == "x.shape[1] = 14, batch 1"
    below = searched(lambda x: x + (x.shape[0] < 3), lambda x: x, example)
    assert smallest(below) == "batch 1, x.shape[1] = 1"
    raises = searched(lambda x: x + 1, lambda x: x + 1 + 0 * x.select(1, 5).sum(), example)
    assert raises.disagreements == []
    assert smallest(raises) == "x.shape[1] = 1, batch 1"


def test_changes_that_are_not_needed_are_left_out() -> None:
    """Changes found together are reduced; a change remains if the input is smaller with the change."""
    search = searched(lambda x: x + (x.sum() < 0), lambda x: x, torch.ones(2, 2))
    negated = next(
        disagreement.changes for disagreement in search.disagreements if words(disagreement.changes) == "x negated"
    )
    (_, (batch, *_)) = next(sizes(search.example))
    assert words(search.smaller("frozen", (batch, *negated))) == "batch 1, x negated, x.shape[1] = 1"


def test_no_two_sizes_of_the_same_axes_are_a_pair() -> None:
    """The second size replaces the first: the input of such a pair was tried before."""

    def refusing(x: Tensor) -> Tensor:
        raise ValueError

    search = searched(lambda x: x, refusing, torch.ones(2, 3))
    pairs = [refusal.changes for refusal in search.refusals if len(refusal.changes) == 2]
    assert len(pairs) > 10
    assert all(first.axes is None or first.axes != second.axes for first, second in pairs)


def test_partings_run_the_first_input_once() -> None:
    """Several inputs are compared with one run of the example; each names the line of its own branch."""
    runs = []

    def branches(x: Tensor) -> Tensor:
        runs.append(tuple(x.shape))
        if x.shape[0] > 2:
            return x + 1
        if x.shape[1] > 2:
            return x + 2
        return x

    parting = partings(branches, partial(branches, torch.ones(2, 2)))
    lines = [parting(partial(branches, torch.ones(*shape))) for shape in ((3, 2), (2, 3))]
    assert [line and line.source for line in lines] == ["if x.shape[0] > 2:", "if x.shape[1] > 2:"]
    assert runs == [(2, 2), (3, 2), (2, 3)]


def test_axes_that_go_together_may_be_kept_so() -> None:
    """The batch of two tensors may be kept together; an axis of a single tensor is changed in any case."""
    example = Example(lambda x, y: x, (torch.ones(4, 3), torch.ones(4, 5)), {})
    every = {words([change]).rpartition(" ")[0].rstrip(" =") for _, changes in sizes(example) for change in changes}
    together = {
        words([change]).rpartition(" ")[0].rstrip(" =") for _, changes in sizes(example, False) for change in changes
    }
    assert every == {"batch", "x.shape[0]", "y.shape[0]", "x.shape[1]", "y.shape[1]"}
    assert together == {"batch", "x.shape[1]", "y.shape[1]"}


def test_difference_is_the_greatest() -> None:
    """The greatest difference has the element and the count; a difference of shapes has neither."""
    first, second = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.5], [3.0, 2.0]])
    assert difference([first, first], [first, second]) == Difference("4.0", "2.0", 1, (1, 1), 2.0, (2, 4))
    assert difference([first], [second], Tolerance(atol=3.0)) is None
    assert difference([first], [second[:1]]) == Difference("shape [2, 2]", "shape [1, 2]")
    assert difference([first], []) == Difference("1 tensor", "0 tensors")
    assert difference([torch.tensor(torch.nan)], [torch.tensor(torch.nan)]) is None
    result = difference([torch.tensor(1.0)], [torch.tensor(torch.nan)])
    assert result is not None
    assert (result.eager, result.other, result.at) == ("1.0", "nan", ())


def test_random_numbers_are_the_same_and_none_is_spent() -> None:
    """Random numbers of torch, NumPy and Python are equal in each run, and the states are restored after an error."""

    def drawn() -> tuple[float, float, float]:
        return torch.rand(()).item(), random.random(), numpy.random.rand()

    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    with seeded():
        first = drawn()
    with pytest.raises(ZeroDivisionError), seeded():
        assert drawn() == first
        raise ZeroDivisionError
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), numpy.random.get_state()[1].tolist())


def test_gradient_of_the_example_is_kept() -> None:
    """A model may ask for the gradient of an input."""
    example = Example(lambda x: x, (torch.ones(2, requires_grad=True),), {})
    ((x,), _) = example.arguments(applied((), example.tensors))
    assert (x.requires_grad, x.is_leaf, x is example.tensors[0]) == (True, True, False)
