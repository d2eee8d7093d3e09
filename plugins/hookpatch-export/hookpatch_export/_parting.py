"""The line at which two runs of a model part: what a capture of the one has lost of the other."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from hookpatch_export._finding import Finding
from hookpatch_export._probe._flow import explained, steps
from hookpatch_export._scan import scan
from hookpatch_export._scanned import spans


@final
@dataclass(frozen=True)
class Parting:
    """A line at which two runs part.

    Attributes:
        file: the file, absolute.
        line: the line, from 1.
        source: its text.
        finding: what the scan says of the line, None if it says nothing.
    """

    file: Path
    line: int
    source: str
    finding: Finding | None


def parting(called: Any, one: Callable[[], object], other: Callable[[], object]) -> Parting | None:
    """Run a model twice, and return the line that decided that the second run went another way.

    Args:
        called: the module, function or method that both runs call.
        one: the one run.
        other: the other run; it may raise.

    Returns:
        The line; None if the runs take one way, and the scan knows no single line on it that hangs on the input.
    """
    modules = _modules(called)
    findings = [found for module in modules for found in scan(module)]
    files = {file for module in modules for file, _, _ in spans(module, findings)} | _file_of(called)
    finding, spot = explained(steps(one, files), steps(other, files), findings)
    if finding is not None:
        return Parting(finding.file, finding.line, finding.source, finding)
    if spot is None:
        return None
    return Parting(spot.file, spot.line, linecache.getline(str(spot.file), spot.line).strip(), None)


def _modules(called: Any) -> list[torch.nn.Module]:
    """Return the modules that are called, or that a function holds."""
    if isinstance(called, torch.nn.Module):
        return [called]
    holder = getattr(called, "__self__", None)
    names = inspect.getclosurevars(called) if inspect.isfunction(called) else None
    held = () if names is None else (*names.nonlocals.values(), *names.globals.values())
    return [one for one in (holder, *held) if isinstance(one, torch.nn.Module)]


def _file_of(called: Any) -> set[Path]:
    code = getattr(inspect.unwrap(getattr(called, "__func__", called)), "__code__", None)
    return set() if code is None else {Path(code.co_filename).resolve()}
