"""`hookpatch scan --probe`: real captures of models, and the inputs on which a capture disagrees with its model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hookpatch.command import app
from hookpatch.errors import HookpatchError

pytestmark = pytest.mark.model

MODELS = '''
import torch


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] > 2:
            return x + 1
        return x * 2


class Late(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] < 11 else x * 2


class Loop(torch.nn.Module):
    def forward(self, x):
        total = x.sum(0)
        for row in range(x.shape[0]):
            total = total + x[row] * row
        return {"total": total}


class Value(torch.nn.Module):
    def forward(self, ids, *, mask=None):
        x = ids * mask
        if x.sum() > 20:
            x = x + 1
        return x


class Number(torch.nn.Module):
    def forward(self, x):
        return x * x.max().item()


class Even(torch.nn.Module):
    def forward(self, x):
        return x + 3 if x.shape[1] % 2 == 0 else x * 2


class Large(torch.nn.Module):
    def forward(self, x):
        if x.shape[1] > 100:
            return x.cumsum(1)
        return x * 2


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g, x):
        return g.op("my::Relu", x)


class Agrees(torch.nn.Module):
    """Counts its calls, writes into a buffer and into its input: nothing of that is to be taken for a difference."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, scale=None):
        self.calls += 1
        self.seen.add_(1)
        return Relu.apply(self.linear(x)) * self.calls + self.seen


class Once(torch.nn.Module):
    def forward(self, x):
        if x.shape != (2, 2) or not torch.equal(x, torch.ones(2, 2)):
            raise ValueError("another input")
        return x + 1


def branch():
    return Branch(), torch.full((4, 3), 5.0)


def late():
    return Late(), torch.full((4, 3), 5.0)


def loop():
    return Loop(), (torch.ones(4, 3),)


def value():
    return Value(), (torch.arange(8).reshape(2, 4),), {"mask": torch.ones(2, 4, dtype=torch.int64)}


def number():
    return Number(), (torch.ones(2, 2),)


def even():
    return Even(), (torch.ones(4, 6),)


def large():
    return Large(), (torch.ones(2, 6),)


def agrees():
    torch.manual_seed(0)
    return Agrees(), (torch.randn(4, 3), None)


def once():
    return Once(), (torch.ones(2, 2),)


def random():
    return torch.nn.Dropout(), torch.ones(4, 4)


def other_input():
    return Once(), (torch.ones(3, 2),)


def no_tensor():
    return Branch(), ()
'''


@pytest.fixture
def models(write_module: Callable[[str, str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """models.py in the current folder."""
    monkeypatch.chdir(folder)
    return write_module("models", MODELS)


def line_of(source: str) -> int:
    return 1 + MODELS.splitlines().index(next(line for line in MODELS.splitlines() if line.strip().startswith(source)))


def probed(name: str, *words: str) -> list[str]:
    """Return the lines of the output about the probe."""
    result = CliRunner().invoke(app, ["scan", f"models.py:{name}", "--probe", *words])
    assert result.exit_code == 0, result.output  # a disagreement does not fail without --fail-on
    assert result.stderr == ""  # exporters print and log a lot
    lines = result.stdout.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("probe: "))
    return [line.strip() for line in lines[start:]]


def test_frozen_branch_is_found_and_told_by_its_line(models: Path) -> None:
    """The example of docs: no exporter says a word, the file takes batch 1, and answers 6.0."""
    place = f"models.py:{line_of('if x.shape[0] > 2')} `if x.shape[0] > 2`"
    lines = probed("branch")
    assert f"batch 1: eager 10.0, ONNX 6.0: {place}" in lines
    assert f"batch 1: eager 10.0, trace 6.0: {place}" in lines
    assert not any(line.startswith("batch 1: eager 10.0, script") for line in lines)  # script keeps both branches
    assert "batch 1: export refuses it: AssertionError: Guard failed: x.size()[0] >= 3" in lines
    assumed = lines[lines.index("assumed of the inputs, and not said in the .onnx file:") + 1 :]
    assert len(assumed) == 1
    assert assumed[0].startswith("x.shape[0] >= 3 ('s")
    assert assumed[0].endswith(f"' in the file): {place}")


def test_least_size_that_disagrees_is_told(models: Path) -> None:
    """A disagreement found at eight times the batch is narrowed down to the smallest batch."""
    place = f"models.py:{line_of('return x + 1 if')} `return x + 1 if x.shape[0] < 11 else x * 2`"
    lines = probed("late")
    assert f"batch 11: eager 10.0, ONNX 6.0: {place}" in lines
    assert f"batch 11: eager 10.0, trace 6.0: {place}" in lines


def test_a_number_of_the_source_is_an_input(models: Path) -> None:
    """The probe tries a size from the source line, far from all multiples of the example's size."""
    place = f"models.py:{line_of('if x.shape[1] > 100')} `if x.shape[1] > 100`"
    lines = probed("large")
    assert [line for line in lines if "trace" in line and "eager" in line] == [
        f"x.shape[1] = 101: eager 101.0, trace 2.0: {place}"
    ]


def test_unrolled_loop_is_found_and_told_by_its_line(models: Path) -> None:
    """An unrolled loop silently does too few rounds for a longer batch, and refuses a shorter batch."""
    place = f"models.py:{line_of('for row')} `for row in range(x.shape[0])`"
    lines = probed("loop")
    assert f"batch 5: eager 15.0, ONNX 11.0: {place}" in lines
    assert f"batch 5: eager 15.0, trace 11.0: {place}" in lines
    assert any(line.startswith("batch 1: ONNX refuses it: ") for line in lines)
    assert any(line.startswith("x.shape[0] == 4 ") and line.endswith(place) for line in lines)


def test_value_branch_is_frozen_by_trace_and_fails_elsewhere(models: Path) -> None:
    """The exporters' own failures are told with the user's line; integers stay in their range."""
    place = f"models.py:{line_of('if x.sum() > 20')} `if x.sum() > 20`"
    lines = probed("value")
    assert [line for line in lines if "eager" in line] == [f"batch 1: eager 0, trace 1: {place}"]
    failed = [line for line in lines if "failed at" in line]
    assert [line.partition(": Guard")[0] for line in failed[1:]] == [
        f"export failed at {place}",
        f"ONNX failed at {place}",
    ]
    forward = f"models.py:{line_of('def forward(self, ids')} `def forward(self, ids, *, mask=None)`"
    assert failed[0].startswith(f"script failed at {forward}: NotSupportedError: Compiled functions can't take")


def test_number_of_a_tensor_is_told_though_the_way_is_the_same(models: Path) -> None:
    """A disagreement between runs without a different branch is explained by the only finding on the path."""
    place = f"models.py:{line_of('return x * x.max')} `return x * x.max().item()`"
    [disagreement] = [line for line in probed("number") if "trace" in line and "eager" in line]
    assert disagreement == f"x negated: eager 1.0, trace -1.0: {place}"


def test_model_that_agrees_is_said_to(models: Path) -> None:
    """A model that agrees on all inputs is reported in JSON without disagreements. The ignored symbolic is named."""
    result = CliRunner().invoke(app, ["scan", "models.py:agrees", "--probe", "--json", "--fail-on", "data"])
    assert (result.stderr, result.exit_code) == ("", 0), result.output
    probe: Any = json.loads(result.stdout)["probe"]
    assert probe["disagreements"] == probe["refusals"] == probe["failures"] == []
    assert probe["modes"] == ["trace", "script", "export", "onnx"]
    assert probe["tried"] > 20
    assert probe["refused"] > 0
    assert (probe["over_budget"], probe["random"]) == (False, False)
    assert probe["symbolic_ignored"] == ["models.Relu"]
    [assumed] = probe["assumed"]
    assert (assumed["constraint"], list(assumed["symbols"]), assumed["at"]) == ("x.shape[1] == 3", ["x.shape[1]"], [])


def test_disagreement_ends_with_status_1(models: Path) -> None:
    """With --fail-on a disagreement gives status 1, even if all findings are below the level.

    The capture is valid for even widths alone, which no range of the file's symbols can express.
    """
    result = CliRunner().invoke(app, ["scan", "models.py:even", "--probe", "--json", "--fail-on", "data"])
    assert result.exit_code == 1
    probe: Any = json.loads(result.stdout)["probe"]
    disagreement = probe["disagreements"][0]
    assert (disagreement["mode"], disagreement["eager"], disagreement["captured"]) == ("trace", "2.0", "4.0")
    assert (Path(disagreement["finding"]["file"]), disagreement["finding"]["line"]) == (models, line_of("return x + 3"))
    place = f"models.py:{line_of('return x + 3')} `return x + 3 if x.shape[1] % 2 == 0 else x * 2`"
    sentences = [entry["sentence"] for entry in probe["disagreements"]]
    assert sentences == [f"x.shape[1] = 1: eager 2.0, {mode} 4.0: {place}" for mode in ("trace", "ONNX")]
    [assumed] = probe["assumed"]
    assert (assumed["constraint"], list(assumed["symbols"])) == ("(x.shape[1] % 2) == 0", ["x.shape[1]"])
    assert [spot["line"] for spot in assumed["at"]] == [line_of("return x + 3")]


def test_budget_ends_the_search(models: Path) -> None:
    """The first line says when the budget is spent, since other inputs were not tried."""
    [first, *_] = probed("value", "--budget", "0")
    assert first == "probe: trace on 1 input; all agree; the budget is spent"


def test_model_that_takes_nothing_else_is_said_to(models: Path) -> None:
    """A model that accepts the example alone is compared on one input. The refused inputs are counted."""
    lines = probed("once")
    assert lines[0].startswith("probe: trace, script on 1 input, ")
    assert lines[0].endswith(" more that the model does not take; all agree")


def test_model_that_is_random_is_not_compared(models: Path) -> None:
    """Or each number would be a difference."""
    [line] = probed("random")
    why = "the model answers the same input in two ways (dropout? model.eval()): nothing was compared"
    assert line == f"probe: trace, script, export, ONNX; {why}"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "other_input",
            "the model does not take its example input: ValueError: another input ({file}:{line}); correct the "
            "function",
        ),
        (
            "no_tensor",
            "the model does not take its example input: TypeError: missing a required argument: 'x'; correct the "
            "function",
        ),
    ],
)
def test_example_that_the_model_does_not_take_is_one_line(models: Path, name: str, problem: str) -> None:
    """Before anything is exported."""
    result = CliRunner().invoke(app, ["scan", f"models.py:{name}", "--probe"])
    assert isinstance(result.exception, HookpatchError)
    wanted = problem.format(file=models, line=line_of("raise ValueError"))
    assert str(result.exception) == f"models.py:{name}: {wanted}"
