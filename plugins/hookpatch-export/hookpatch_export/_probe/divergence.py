"""Find the line where two runs of a model part: the branch lost by a capture of the first run."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from hookpatch_export._findings.finding import Finding
from hookpatch_export._findings.spans import spans
from hookpatch_export._probe.run_path import explain, record_steps
from hookpatch_export._scan.scan import scan


@final
@dataclass(frozen=True)
class Parting:
    """A line where two runs part.

    Attributes:
        file: the file, absolute.
        line: the line, from 1.
        source: the text of the line.
        finding: the finding of the scan on the line; None without a finding.
    """

    file: Path
    line: int
    source: str
    finding: Finding | None


def partings(called: Any, first_run: Callable[[], object]) -> Callable[[Callable[[], object]], Parting | None]:
    """Run a model once, and return a function that runs it again and finds where the second run took another branch.

    Args:
        called: the module, function or method that all runs call.
        first_run: the first run.

    Returns:
        A function that takes a second run, which may raise, and returns the line; None if both runs take the same
        path, unless exactly one line on the path depends on the input.
    """
    modules = _modules(called)
    findings = [finding for module in modules for finding in scan(module)]
    files = {file for module in modules for file, _, _ in spans(module, findings)} | _file_of(called)
    first = record_steps(first_run, files)

    def parting(second_run: Callable[[], object]) -> Parting | None:
        finding, spot = explain(first, record_steps(second_run, files), findings)
        if finding is not None:
            return Parting(finding.file, finding.line, finding.source, finding)
        if spot is None:
            return None
        return Parting(spot.file, spot.line, linecache.getline(str(spot.file), spot.line).strip(), None)

    return parting


def _modules(called: Any) -> list[torch.nn.Module]:
    """Return the module that is called, or the modules that a function refers to."""
    if isinstance(called, torch.nn.Module):
        return [called]
    holder = getattr(called, "__self__", None)
    names = inspect.getclosurevars(called) if inspect.isfunction(called) else None
    referenced = () if names is None else (*names.nonlocals.values(), *names.globals.values())
    return [value for value in (holder, *referenced) if isinstance(value, torch.nn.Module)]


def _file_of(called: Any) -> set[Path]:
    code = getattr(inspect.unwrap(getattr(called, "__func__", called)), "__code__", None)
    return set() if code is None else {Path(code.co_filename).resolve()}
