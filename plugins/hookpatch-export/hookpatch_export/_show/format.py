"""Format a finding: place, route, consequences."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from hookpatch_export._findings.finding import MODES, Finding

EVERY: Final = "every mode"
_INSTALLED: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))


def by_consequence(consequence: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each consequence behind its modes, joined: ``("trace, onnx", "the branch is frozen")``."""
    modes: dict[str, list[str]] = {}
    for mode, text in consequence.items():
        modes.setdefault(text, []).append(mode)
    return [
        (EVERY if shared_modes == [*MODES] else ", ".join(shared_modes), text) for text, shared_modes in modes.items()
    ]


def is_harmless(consequence: str) -> bool:
    """Return True if a consequence does no harm: the line works as its author meant."""
    return consequence in ("", "kept", "compiled", "stays as it is") or consequence.startswith("compiled as ")


def format_route(route: Iterable[str]) -> str:
    """Return the route to a line; a name repeated in a row, as behind decorators, is written once."""
    return " → ".join(name for name, _ in groupby(route))


def format_place(finding: Finding) -> str:
    """Return ``file:line:column``, with the path from the current folder if the file is in it."""
    return f"{relative_path(finding.file)}:{finding.line}:{finding.column}"


def relative_path(file: Path) -> str:
    """Return a file's path from the current folder, or of a library from the folder it is installed in."""
    for folder in (Path.cwd(), *_INSTALLED):
        if file.is_relative_to(folder):
            return str(file.relative_to(folder))
    return str(file)


def is_of_library(file: Path) -> bool:
    """Return True if a file is of an installed distribution."""
    return any(file.is_relative_to(folder) for folder in _INSTALLED)


def count_by_kind(findings: Iterable[Finding]) -> str:
    """Return the number of findings of each kind, the worst first: ``1 data, 2 shape``."""
    counts: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: -finding.kind):
        counts[str(finding.kind)] = counts.get(str(finding.kind), 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())
