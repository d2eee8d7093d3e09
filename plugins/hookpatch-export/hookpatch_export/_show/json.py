"""Show findings as plain JSON, for a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookpatch_export._findings.finding import Finding


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as values that ``json`` can write, in the order of ``Finding``'s attributes."""
    return [
        {
            "file": str(one.file),
            "line": one.line,
            "column": one.column,
            "kind": str(one.kind),
            "construct": one.construct,
            "source": one.source,
            "route": list(one.route),
            "consequence": dict(one.consequence),
            "instead": one.instead,
            "end_line": one.end_line,
            "end_column": one.end_column,
        }
        for one in findings
    ]
