"""Show findings as plain JSON, for a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookpatch_export._findings.finding import Finding


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as values that ``json`` can write, in the order of ``Finding``'s attributes."""
    return [
        {
            "file": str(finding.file),
            "line": finding.line,
            "column": finding.column,
            "kind": str(finding.kind),
            "construct": finding.construct,
            "source": finding.source,
            "route": list(finding.route),
            "consequence": dict(finding.consequence),
            "instead": finding.instead,
            "end_line": finding.end_line,
            "end_column": finding.end_column,
        }
        for finding in findings
    ]
