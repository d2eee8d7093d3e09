"""The results of `hookpatch runtimes`: figures, a table, a picture and an exit status."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hookpatch_torchscript._runtimes.command.command import left_out, status_of
from hookpatch_torchscript._runtimes.jobs.job import MODES, Difference, Setting, Trial
from hookpatch_torchscript._runtimes.jobs.result import Comparison, Result
from hookpatch_torchscript._runtimes.measure.agreement import OtherAnswerError, difference, tensors
from hookpatch_torchscript._runtimes.show import figures
from hookpatch_torchscript._runtimes.show.plot import draw
from hookpatch_torchscript._runtimes.show.table import show
from hookpatch_torchscript.errors import RuntimesError
from rich.console import Console
from transformers.modeling_outputs import BaseModelOutput

pytestmark = pytest.mark.model

MACHINE = {"processor": "EPYC", "cores": 2, "threads": 1, "torch": "2.13.0", "python": "3.11.7"}
FAILED = Result(
    "script", (Trial("failed", "attribute config of Net: torch compiles its class, and has no source of it at hand"),)
)
WRONG = Result("trace", (Trial("differs", "logits is 0.43 from eager's"),))


def good(mode: str, *times: float, absolute: float = 0.0) -> Result:
    apart = Difference("logits", absolute, absolute, 1e-4)
    return Result(mode, (Trial("ok", None, 0.5, times, 12_000_000, 1_500_000_000, apart),))


def compared(*results: Result) -> Comparison:
    return Comparison(Setting("cpu", "float32", 8), results, MACHINE)


ALL = compared(good("eager", 0.010, 0.0101, 0.0102), WRONG, FAILED, good("compile", 0.005, 0.009, absolute=2e-6))


def test_rounds_are_pooled() -> None:
    """Times of all rounds count alike; of preparations the median, of memory the most."""
    first = Trial("ok", None, 1.0, (1.0, 2.0), 10, 5)
    second = Trial("ok", None, 3.0, (3.0, 4.0, 5.0), 7, 6)
    result = Result("trace", (first, second))
    assert (result.median, result.quartiles, result.blocks) == (3.0, (2.0, 4.0), 5)
    assert (result.preparation, result.preparing, result.running) == (2.0, 10, 6)
    assert Result("trace", (Trial("ok", None, 1.0, (1.0,)),)).quartiles is None


def test_mode_that_fails_in_a_later_round_has_no_figures() -> None:
    """A mode that fails in a later round has no figures. The problem names the round."""
    result = Result("trace", (Trial("ok", None, 1.0, (1.0, 2.0), 10, 5), Trial("failed", "out of memory")))
    assert (result.status, result.problem) == ("failed", "in round 2: out of memory")
    assert (result.median, result.preparation, result.preparing, result.running, result.blocks) == (
        None,
        None,
        None,
        None,
        0,
    )


@pytest.mark.parametrize(
    ("results", "are_modes_named", "status"),
    [
        ([good("eager", 1.0)], True, 0),
        ([good("eager", 1.0), FAILED], False, 0),
        ([good("eager", 1.0), FAILED], True, 1),
        ([good("eager", 1.0), WRONG], False, 1),
        ([Result("eager", (Trial("failed", "no"),))], False, 1),
    ],
)
def test_exit_status(results: list[Result], are_modes_named: bool, status: int) -> None:
    """The status is 1 for a wrong answer, for a failure of a requested mode, and for a failure of eager."""
    assert status_of([compared(*results)], are_modes_named) == status


def test_modes_that_a_python_does_not_have() -> None:
    """Modes that a Python lacks are reported in a single line, but only if requested."""
    assert left_out(MODES, (3, 13)) == []
    assert left_out(["eager", "compile"], (3, 14)) == []
    assert left_out(MODES, (3, 14)) == [
        "trace, script, script+freeze left out: torch does not support torch.jit on Python 3.14"
    ]


@pytest.mark.parametrize(
    ("eager", "answer", "expected"),
    [
        (torch.ones(2), torch.tensor([1.0, 1.5]), ("output", 0.5, 0.5, 1e-4)),
        ((torch.ones(2), torch.full((1,), 4.0)), [torch.ones(2), torch.full((1,), 6.0)], ("[1]", 2.0, 0.5, 1e-4)),
        ({"a": torch.ones(1), "n": None}, (torch.ones(1),), ("a", 0.0, 0.0, 1e-4)),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), ("output", 1.0, 0.5, 0.0)),
        (torch.ones(1).half(), torch.ones(1), ("output", 0.0, 0.0, 1e-2)),
        (torch.tensor([torch.inf, torch.nan, 1]), torch.tensor([torch.inf, torch.nan, 1]), ("output", 0.0, 0.0, 1e-4)),
        (torch.ones(2), torch.tensor([1.0, torch.nan]), ("output", torch.inf, torch.inf, 1e-4)),
        (torch.zeros(2), torch.tensor([0.0, 1e-9]), ("output", pytest.approx(1e-9), torch.inf, 1e-4)),
        (
            BaseModelOutput(last_hidden_state=torch.ones(1), hidden_states=(torch.ones(1), torch.ones(1))),
            [torch.ones(1), torch.ones(1), torch.zeros(1)],
            ("hidden_states.[1]", 1.0, 1.0, 1e-4),
        ),
    ],
)
def test_where_two_answers_are_farthest(eager: Any, answer: Any, expected: tuple[str, float, float, float]) -> None:
    """All tensors are compared, in order; relative to the greatest magnitude; whole numbers exactly."""
    assert difference(tensors(eager), tensors(answer)) == Difference(*expected)


@pytest.mark.parametrize(
    ("eager", "answer", "problem"),
    [
        (torch.ones(2), torch.ones(3), "output: eager's shape is [2], the mode's shape is [3]"),
        ((torch.ones(2), torch.ones(2)), torch.ones(2), "eager returns 2 tensors, the mode 1 tensor"),
        (None, None, "eager returns no tensor to compare"),
    ],
)
def test_answers_of_other_shapes(eager: Any, answer: Any, problem: str) -> None:
    """Answers of different shapes are an error, without broadcasting."""
    with pytest.raises(OtherAnswerError) as caught:
        difference(tensors(eager), tensors(answer))
    assert str(caught.value) == problem


def test_figures_have_three_digits() -> None:
    """A figure has three digits and a fitting unit."""
    assert [figures.seconds(value) for value in (None, 1.423, 0.99951, 0.0123, 85.6e-6)] == [
        *("-", "1.42 s", "1.00 s", "12.3 ms", "85.6 µs")
    ]
    assert [figures.size(value) for value in (None, 85_200_000, 1_210_000_000)] == ["-", "85 MB", "1.21 GB"]
    assert [figures.times(value) for value in (None, 0.0032, 0.99, 1.0, 34.56, 183.2)] == [
        *("-", "0.0032x", "0.99x", "1.00x", "34.6x", "183x")
    ]


def printed(width: int, terminal: bool) -> str:
    out = io.StringIO()
    show(ALL, Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False))
    return out.getvalue()


def test_text_of_a_log() -> None:
    """A log has a table, bars with the quartile, a line for each failure, and a remark on uncertain figures."""
    assert [line.rstrip() for line in printed(120, False).splitlines()] == [
        "",
        "batch 8 · float32 · cpu",
        "",
        "                  latency           samples            peak memory            differs",
        "mode     prepare   median      IQR      / s  speed-up      prepare       run       by",
        "eager     500 ms  10.1 ms   100 µs      792     1.00x       +12 MB  +1.50 GB        0",
        "compile   500 ms  7.00 ms  2.00 ms     1143     1.44x       +12 MB  +1.50 GB    2e-06",
        "",
        f"eager          {'█' * 60}▊ 10.1 ms  1.00x",
        f"compile        {'█' * 42}▏{'─' * 5} 7.00 ms  1.44x",
        "",
        "trace          WRONG  logits is 0.43 from eager's",
        "script         failed  attribute config of Net: torch compiles its class, and has no source of it at hand",
        "",
        "uncertain  compile: one block alone, or an IQR above 25 %; "
        "let the machine be quiet, or give --seconds, --repeat more",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_terminal_is_not_too_narrow(width: int) -> None:
    """No line is wider than the terminal, and no text is cut."""
    lines = printed(width, True).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


def test_picture_has_all_modes(tmp_path: Path) -> None:
    """An SVG has names, figures and failures as text. A PNG can be written, too."""
    draw(tmp_path / "a.svg", "net", [("batch 8", ALL)])
    text = (tmp_path / "a.svg").read_text()
    for word in ("eager", "trace", "script", "compile", "7.00 ms", "10.1 ms", "1.44x"):
        assert f">{word}<" in text
    assert ">wrong answer: logits is 0.43 from eager's<" in text
    assert ">failed: attribute config of Net: torch compiles its class, and ...<" in text
    assert "2 cores, 1 thread ·" in text
    draw(tmp_path / "a.png", "net", [("batch 8", ALL)] * 3)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_picture_that_cannot_be_written(tmp_path: Path) -> None:
    """An error names the file."""
    path = tmp_path / "a.svg"
    path.mkdir()
    with pytest.raises(RuntimesError) as caught:
        draw(path, "net", [("batch 8", ALL)])
    assert str(caught.value) == f"--plot {path}: cannot be written: Is a directory"


def test_command_needs_no_torch() -> None:
    """The command imports no torch, since child processes measure and ask torch."""
    code = "import sys, hookpatch_torchscript._runtimes.command.command; print('torch' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "False\n"
