"""Probe a model by running it: capture it, and compare answers on inputs other than the example."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from hookpatch_probe.changes import Change, applied
from hookpatch_probe.example import Example, Run
from hookpatch_probe.quiet import quiet
from hookpatch_probe.search import Disagreement, Refusal, Search, is_random

from hookpatch_export._findings.finding import Finding
from hookpatch_export._probe.assumptions import Assumption, assumptions
from hookpatch_export._probe.captures import Captured, captures, eager
from hookpatch_export._probe.run_path import Spot, Step, explain, record_steps
from hookpatch_export._probe.symbolic import functions_with_symbolic
from hookpatch_export._probe.user_lines import line_of_error
from hookpatch_export.errors import ModelError


@final
@dataclass(frozen=True)
class Explained:
    """A disagreement, with the finding that explains it.

    Attributes:
        disagreement: the capture and the input on which it disagrees.
        finding: the finding that explains the disagreement; None if none does.
        spot: the place where the run parts from the run of the example; None if it does not.
    """

    disagreement: Disagreement
    finding: Finding | None
    spot: Spot | None


@final
@dataclass(frozen=True)
class Failure:
    """A capture that failed, or works for the sizes of the example alone.

    Attributes:
        mode: the mode of capture.
        fixed: whether the capture works for the sizes of the example.
        error: the error of the exporter.
        spot: the line of the user's code that caused the error; None if not known.
    """

    mode: str
    fixed: bool
    error: Exception
    spot: Spot | None


@final
@dataclass(frozen=True)
class Probe:
    """The result of a probe.

    Attributes:
        modes: the modes of capture.
        tried: the number of inputs compared.
        refused: the number of inputs that the model itself refuses.
        over: whether the budget was spent before all inputs were tried.
        random: whether the model answers the same input in different ways, so that nothing was compared.
        disagreements: inputs on which a capture disagrees, the first for each line.
        refusals: inputs that a capture refuses and the model takes, the first for each capture.
        failures: the captures that failed.
        assumed: assumptions of the exporter that the .onnx file does not state.
        symbolic: autograd.Functions whose ``symbolic`` was ignored.
    """

    modes: tuple[str, ...]
    tried: int
    refused: int
    over: bool
    random: bool
    disagreements: tuple[Explained, ...]
    refusals: tuple[Refusal, ...]
    failures: tuple[Failure, ...]
    assumed: tuple[Assumption, ...]
    symbolic: tuple[str, ...]


def probe(
    word: str,
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    findings: Sequence[Finding],
    files: Iterable[Path],
    budget: float,
) -> Probe:
    """Capture a model with trace, script, export and ONNX, and search for inputs on which a capture disagrees with it.

    Args:
        word: the model's name.
        model: the model, in the mode (training or not) to capture.
        args: the positional arguments of the example input.
        kwargs: the keyword arguments of the example input.
        findings: the findings of the scan.
        files: the files of the model, absolute.
        budget: seconds for the search.

    Raises:
        ModelError: the model refuses the example input.
    """
    watched = frozenset([*files, *(finding.file for finding in findings)])
    with quiet():
        try:
            example = Example(model, args, kwargs)
            run = eager(model, example)
            with torch.no_grad():
                symbolic = functions_with_symbolic(lambda: run(example.tensors))
        except Exception as error:
            raise ModelError(word, _refused(error)) from error
        if not example.tensors:
            raise ModelError(word, "the inputs hold no tensor, and the probe changes tensors")
        random = is_random(run, example)
        with torch.no_grad():
            captured = list(captures(model, example))
        runs = {capture.mode: capture.run for capture in captured if capture.run is not None}
        until = time.monotonic() + budget
        search = Search(example, run, {} if random else runs, lambda _: time.monotonic() >= until)
        if not random:
            search.run()
        explained = _explained(search, run, findings, watched)
        programs = {capture.mode: capture.program for capture in captured}
        program = programs["onnx"]
        assumed = assumptions(program, programs["export"], example.names, watched) if program is not None else []
    return Probe(
        modes=tuple(runs),
        tried=search.tried,
        refused=search.refused,
        over=search.over,
        random=random,
        disagreements=tuple(explained),
        refusals=tuple({refusal.mode: refusal for refusal in reversed(search.refusals)}.values())[::-1],
        failures=tuple(_failures(captured)),
        assumed=tuple(assumed),
        symbolic=tuple(symbolic) if program is not None else (),
    )


def _refused(error: Exception) -> str:
    spot = line_of_error(error)
    where = f" ({spot.file}:{spot.line})" if spot is not None else ""
    first = str(error).strip().partition("\n")[0]
    return f"the model does not take its example input: {type(error).__name__}: {first}{where}; correct the function"


def _failures(captured: Iterable[Captured]) -> list[Failure]:
    return [
        Failure(capture.mode, capture.run is not None, capture.error, line_of_error(capture.error))
        for capture in captured
        if capture.error is not None
    ]


def _explained(search: Search, run: Run, findings: Sequence[Finding], files: Iterable[Path]) -> list[Explained]:
    """Return the disagreements with their explanations; for each capture and line only the first."""
    ways: dict[tuple[Change, ...], list[Step]] = {}

    def way(changes: tuple[Change, ...]) -> list[Step]:
        if changes not in ways:
            tensors = applied(changes, search.example.tensors)
            with torch.no_grad():
                ways[changes] = record_steps(lambda: run(tensors), files)
        return ways[changes]

    by_line: dict[object, Explained] = {}
    for disagreement in search.disagreements:
        finding, spot = explain(way(()), way(disagreement.changes), findings)
        key = (disagreement.mode, (finding.file, finding.line, finding.column) if finding is not None else spot)
        by_line.setdefault(key, Explained(disagreement, finding, spot))
    return list(by_line.values())
