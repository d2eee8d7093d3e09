"""The truth, by running: a model captured, and answers compared on other inputs than the example's."""

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

from hookpatch_export._finding import Finding
from hookpatch_export._probe._assumed import Assumption, assumptions
from hookpatch_export._probe._captured import Captured, captures, eager
from hookpatch_export._probe._flow import Spot, Step, explained, steps
from hookpatch_export._probe._symbolic import with_symbolic
from hookpatch_export._probe._where import of_error
from hookpatch_export.errors import ModelError


@final
@dataclass(frozen=True)
class Explained:
    """A disagreement, and what explains it.

    Attributes:
        disagreement: what disagrees, and on what.
        finding: the finding that explains it, None if none does.
        spot: where the run parts from that of the example, None if it does not.
    """

    disagreement: Disagreement
    finding: Finding | None
    spot: Spot | None


@final
@dataclass(frozen=True)
class Failure:
    """A capture that failed, or works for the sizes of the example alone.

    Attributes:
        mode: how the model was to be captured.
        fixed: whether it works for the sizes of the example.
        error: what the exporter said.
        spot: the user's line that it comes from, None if it is not known.
    """

    mode: str
    fixed: bool
    error: Exception
    spot: Spot | None


@final
@dataclass(frozen=True)
class Probe:
    """What a probe has found.

    Attributes:
        modes: how the model was captured.
        tried: how many inputs were compared.
        refused: how many inputs the model itself does not take.
        over: whether the budget was spent before all were tried.
        random: whether the model answers the same input in different ways, so that nothing was compared.
        disagreements: inputs on which a capture disagrees, the first for each line.
        refusals: inputs that a capture does not take and the model does, the first for each capture.
        failures: what could not be captured.
        assumed: what the exporter assumed and the .onnx file does not say.
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
    """Capture a model with trace, script, export and ONNX, and look for inputs on which one of them disagrees with it.

    Args:
        word: the model's name.
        model: the model, in the mode (training or not) that it is to be captured in.
        args: the example input.
        kwargs: its arguments by keyword.
        findings: what the scan found.
        files: the files of the model, absolute.
        budget: seconds for the search.

    Raises:
        ModelError: the model does not take the example.
    """
    watched = frozenset([*files, *(one.file for one in findings)])
    with quiet():
        try:
            example = Example(model, args, kwargs)
            run = eager(model, example)
            with torch.no_grad():
                symbolic = with_symbolic(lambda: run(example.tensors))
        except Exception as error:
            raise ModelError(word, _refused(error)) from error
        if not example.tensors:
            raise ModelError(word, "its inputs hold no tensor; there is nothing that could be changed")
        random = is_random(run, example)
        with torch.no_grad():
            captured = list(captures(model, example))
        runs = {one.mode: one.run for one in captured if one.run is not None}
        until = time.monotonic() + budget
        search = Search(example, run, {} if random else runs, lambda _: time.monotonic() >= until)
        if not random:
            search.run()
        explained = _explained(search, run, findings, watched)
        programs = {one.mode: one.program for one in captured}
        program = programs["onnx"]
        assumed = assumptions(program, programs["export"], example.names, watched) if program is not None else []
    return Probe(
        modes=tuple(runs),
        tried=search.tried,
        refused=search.refused,
        over=search.over,
        random=random,
        disagreements=tuple(explained),
        refusals=tuple({one.mode: one for one in reversed(search.refusals)}.values())[::-1],
        failures=tuple(_failures(captured)),
        assumed=tuple(assumed),
        symbolic=tuple(symbolic) if program is not None else (),
    )


def _refused(error: Exception) -> str:
    spot = of_error(error)
    where = f" ({spot.file}:{spot.line})" if spot is not None else ""
    first = str(error).strip().partition("\n")[0]
    return f"the model does not take its example input: {type(error).__name__}: {first}{where}; mend the function"


def _failures(captured: Iterable[Captured]) -> list[Failure]:
    return [
        Failure(one.mode, one.run is not None, one.error, of_error(one.error))
        for one in captured
        if one.error is not None
    ]


def _explained(search: Search, run: Run, findings: Sequence[Finding], files: Iterable[Path]) -> list[Explained]:
    """Return the disagreements, of those that one line explains the first for each capture."""
    ways: dict[tuple[Change, ...], list[Step]] = {}

    def way(changes: tuple[Change, ...]) -> list[Step]:
        if changes not in ways:
            tensors = applied(changes, search.example.tensors)
            with torch.no_grad():
                ways[changes] = steps(lambda: run(tensors), files)
        return ways[changes]

    found: dict[object, Explained] = {}
    for one in search.disagreements:
        finding, spot = explained(way(()), way(one.changes), findings)
        key = (one.mode, (finding.file, finding.line, finding.column) if finding is not None else spot)
        found.setdefault(key, Explained(one, finding, spot))
    return list(found.values())
