"""A finding in words: where it is, what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from hookpatch_export._finding import MODES, Finding

EVERY: Final = "every mode"


def joined(consequence: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the modes of each consequence, joined, with it: ``("trace, onnx", "the branch is frozen")``."""
    modes: dict[str, list[str]] = {}
    for mode, what in consequence.items():
        modes.setdefault(what, []).append(mode)
    return [(EVERY if those == [*MODES] else ", ".join(those), what) for what, those in modes.items()]


def harmless(what: str) -> bool:
    """Tell whether a consequence is none: the line works as it is meant to."""
    return what in ("", "kept", "compiled", "stays as it is") or what.startswith("compiled as ")


def way(route: Iterable[str]) -> str:
    """Return the way to a line; what stands several times behind itself, as behind decorators, is said once."""
    return " → ".join(name for name, _ in groupby(route))


def place(finding: Finding) -> str:
    """Return ``file:line:column``, the file from the current folder if it is under it."""
    return f"{near(finding.file)}:{finding.line}:{finding.column}"


def near(file: Path) -> str:
    """Return a file's path from the current folder if it is under it."""
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def counted(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each kind, the worst first: ``1 data, 2 shape``."""
    counts: dict[str, int] = {}
    for one in sorted(findings, key=lambda one: -one.kind):
        counts[str(one.kind)] = counts.get(str(one.kind), 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())
