"""Small models with a known truth: each wrong trace is found with the deciding line, and no true trace is reported."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hookpatch_torchscript import Verdict, guard
from torch import Tensor, nn

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


# --- wrong traces, with a mark on the line


class BranchOnBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 2:  # lost
            return x + 1
        return x * 2


class BranchOnLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.shape[1] < 11 else x * 2  # lost


class BranchOnSum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if x.sum() > 0:  # lost
            y = y + 1
        return y


class LoopOverRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x.sum(0)
        for row in range(x.shape[0]):  # lost
            total = total + x[row] * row
        return total


class EarlyReturn(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.all():  # lost
            return x
        return x * mask


class WhileOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while x.abs().max() > 8:  # lost
            x = x / 2
        return x


class InAFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return halved(x) + 1


def halved(x: Tensor) -> Tensor:
    return x / 2 if len(x) % 2 == 0 else x  # lost


class NumberOfTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scale = x.max().item()  # lost
        return x * scale  # baked


class SizeAsInt(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = int(x.shape[1]) * 2  # lost
        return x + torch.arange(steps).to(x)[: x.shape[1]] / steps  # baked


class TensorOfPython(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - torch.tensor([float(x.mean()), 1.0]).sum()  # lost baked


class ByNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - torch.from_numpy(x.detach().numpy().mean(0))  # lost baked


class LongerThan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) if x.shape[1] > 100 else x * 2  # lost


class GreaterThan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.abs().max() > 1e6:  # lost
            x = x / 1e6
        return x


class BelowASetting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.low = -70_000.0

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=-1) if x.min() < self.low else x  # lost


class WithoutNaN(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if torch.isnan(x).any():  # lost
            x = torch.zeros_like(x)
        return x * 2


class KeyOfDict(nn.Module):
    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        return parts["a"] + (parts["bias"] if "bias" in parts else 3)  # noqa: SIM401  # the question is tested


class WholeNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2 if bool(x.sub(x.round()).abs().sum() < 1e-3) else x


class MeanOfSome(nn.Module):
    """Repeats one channel three times, and takes three of more channels."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.repeat(1, 3) if x.shape[1] == 1 else x[:, :3]).mean(1)


class OfItsType(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, torch.finfo(x.dtype).min)  # baked


class LengthOfList(nn.Module):
    def forward(self, xs: list[Tensor]) -> Tensor:
        return torch.stack(list(xs)).sum(0) / len(xs)


class OrderOfDict(nn.Module):
    def forward(self, pair: dict[str, Tensor]) -> Tensor:
        first, second = pair.values()
        return first - second


class Contiguous(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.is_contiguous() else x * 3  # lost baked


class TokenOfPadding(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        if (ids == 50256).any():  # lost
            return ids * 0
        return ids + 1


class EmptyForOne(nn.Module):
    """Returns no element for a batch of 1. Answers of 0 elements and of 1 element differ in shape, not in a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x[: int(x.shape[0] // 2)].sum(1)  # lost baked


LIES: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "BranchOnBatch": (BranchOnBatch, (torch.full((4, 3), 5.0),)),
    "BranchOnLength": (BranchOnLength, (torch.full((2, 4), 5.0),)),
    "BranchOnSum": (BranchOnSum, (torch.ones(4, 3),)),
    "LoopOverRows": (LoopOverRows, (torch.ones(4, 3),)),
    "EarlyReturn": (EarlyReturn, (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))),
    "WhileOnValue": (WhileOnValue, (torch.ones(2, 3),)),
    "LongerThan": (LongerThan, (torch.ones(2, 4),)),
    "GreaterThan": (GreaterThan, (torch.ones(2, 3),)),
    "BelowASetting": (BelowASetting, (torch.ones(2, 3),)),
    "WithoutNaN": (WithoutNaN, (torch.ones(2, 3),)),
    "Contiguous": (Contiguous, (torch.ones(2, 3),)),
    "TokenOfPadding": (TokenOfPadding, (torch.ones(2, 3, dtype=torch.int64),)),
    "EmptyForOne": (EmptyForOne, (torch.ones(2, 3),)),
    "halved": (InAFunction, (torch.ones(4, 3),)),
    "NumberOfTensor": (NumberOfTensor, (torch.arange(6.0).reshape(2, 3),)),
    "SizeAsInt": (SizeAsInt, (torch.ones(2, 4),)),
    "TensorOfPython": (TensorOfPython, (torch.ones(2, 3),)),
    "ByNumpy": (ByNumpy, (torch.ones(2, 3),)),
}


@pytest.mark.parametrize("name", LIES)
def test_lie_is_found_with_its_line(name: str) -> None:
    """The verdict names the line of the branch, the loop or the constant, and no other line."""
    make, example = LIES[name]
    model = make()

    verdict = guard(torch.jit.trace(model, example), model, example)

    lines = [
        (disagreement.lost.place.line, "lost")
        for disagreement in verdict.disagreements
        if disagreement.lost and disagreement.lost.place
    ]
    lines += [(each.place.line, "baked") for disagreement in verdict.disagreements for each in disagreement.baked]
    assert lines == marked(globals()[name]), str(verdict)


def marked(owner: Any) -> list[tuple[int, str]]:
    """Return the marked lines of a class or function, lines marked as lost first."""
    lines, start = inspect.getsourcelines(owner)
    marks = [(start + index, word) for index, line in enumerate(lines) for word in line.rpartition("# ")[2].split()]
    return sorted([mark for mark in marks if mark[1] in ("lost", "baked")], key=lambda mark: mark[1], reverse=True)


# --- wrong traces without a deciding line


@pytest.mark.parametrize(
    ("make", "example", "words"),
    [
        (OfItsType, (torch.tensor([1.0, -1.0]),), "as float64"),
        (LengthOfList, ([torch.ones(2), torch.zeros(2)],), "argument 0 one longer"),
        (OrderOfDict, ({"a": torch.ones(2), "b": torch.zeros(2)},), "argument 0 in the other order"),
        (KeyOfDict, ({"a": torch.ones(2)},), "argument 0 with 'bias'"),
        (KeyOfDict, ({"a": torch.ones(2), "bias": torch.ones(2)},), "argument 0 without 'bias'"),
        (WholeNumbers, (torch.tensor([0.3337, 2.6161]),), "x rounded"),
        (MeanOfSome, (torch.tensor([[0.3], [2.6]]),), "x.shape[1] = 4"),
    ],
)
def test_lie_without_a_branch_is_found(make: Callable[[], nn.Module], example: tuple[Any, ...], words: str) -> None:
    model = make()
    verdict = guard(torch.jit.trace(model, example, check_trace=False, strict=False), model, example)
    assert any(disagreement.words.startswith(words) for disagreement in verdict.disagreements), str(verdict)


# --- true traces


class Plain(nn.Module):
    """Has a loop with a fixed count, an if on a setting, and sizes used as sizes."""

    def __init__(self, flag: bool = True) -> None:
        super().__init__()
        self.flag = flag
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = self.linear(x)
        if self.flag:
            x = torch.relu(x)
        return x.view(x.shape[0], -1) / x.shape[0]


class Writes(nn.Module):
    """Counts calls in an attribute, a buffer and a plain tensor, and writes into the input."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.state = torch.zeros(())
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen += 1
        self.state += 1
        x += 1
        return x + self.seen + self.state


class Keeps(nn.Module):
    """Reads a part of a table in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(64.0).cos())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.table[: x.shape[1]]


class Remembers(nn.Module):
    """Keeps a computed tensor with a gradient, and a lock. ``copy.deepcopy`` refuses to copy both."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.last: Tensor | None = None
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            self.last = self.linear(x)
        return self.last


class Where(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x * 2, -x)


class Refuses(nn.Module):
    """Raises an error for all sizes but the example's."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape != (2, 3):
            raise ValueError("no")
        return x * 2


class Capped(nn.Module):
    """Writes into parameters: a look-up shortens the rows of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3, max_norm=0.5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


TRUTHS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "plain": (Plain, (torch.ones(4, 3),)),
    "dropout, eval": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval(), (torch.ones(4, 3),)),
    "dropout, training": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), (torch.ones(4, 3),)),
    "batch norm, eval": (lambda: nn.BatchNorm2d(3).eval(), (torch.rand(2, 3, 4, 4),)),
    "batch norm, training": (lambda: nn.BatchNorm2d(3), (torch.rand(2, 3, 4, 4),)),
    "writes": (Writes, (torch.ones(4, 3),)),
    "remembers": (Remembers, (torch.ones(4, 3),)),
    "keeps": (Keeps, (torch.ones(4, 3),)),
    "where": (Where, (torch.randn(4, 3),)),
    "refuses": (Refuses, (torch.ones(2, 3),)),
    "writes into parameters": (Capped, (torch.tensor([[0, 3], [1, 1]]),)),
    "conv": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.ReLU()), (torch.rand(1, 3, 12, 12),)),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).train(False), (torch.rand(2, 5, 4),)),
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), (torch.rand(2, 5, 3),)),
    "double, complex": (Where, (torch.randn(4, 3, dtype=torch.float64),)),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_truth_is_no_lie(name: str) -> None:
    """A true trace has no disagreement after several compared inputs."""
    make, example = TRUTHS[name]
    model = make()
    traced = torch.jit.trace(model, tuple(tensor.clone() for tensor in example), check_trace=False)

    verdict = guard(traced, model, example)

    assert verdict.agrees, str(verdict)
    assert verdict.tried > 5
    assert str(verdict).endswith(f"agrees with the original on {verdict.tried} inputs")


# --- models that cannot be compared


class OfItsOwn(nn.Module):
    """Draws from a random generator without a seed."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 10 ** random.SystemRandom().uniform(0, 30)  # two draws are hardly ever near each other


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lines = open(__file__)  # noqa: SIM115 - an object that cannot be copied

    def forward(self, x: Tensor) -> Tensor:
        return x


def verdict_of(model: nn.Module) -> Verdict:
    example = torch.ones(2, 3)
    return guard(torch.jit.trace(model, example, check_trace=False), model, example)


def test_what_answers_in_two_ways_is_not_compared() -> None:
    """A model with two answers to one input is reported, but not as a disagreement."""
    verdict = verdict_of(OfItsOwn())
    assert not verdict.agrees
    assert verdict.disagreements == ()
    assert verdict.unchecked == "the original answers one input in two ways, with the same seed"


def test_what_cannot_be_copied_is_not_compared() -> None:
    """A model that cannot be copied is not run, since a run could change the model."""
    model = Locked()
    verdict = verdict_of(model)
    model.lines.close()
    assert verdict.unchecked == "TypeError: cannot pickle '_io.TextIOWrapper' object"
    assert str(verdict).startswith(f"the trace of Locked ({__file__}:")
