"""Show findings to editors and CI as SARIF 2.1.0 (OASIS, https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from hookpatch_export._findings.finding import Finding, Kind
from hookpatch_export._findings.ignore_comments import Remark
from hookpatch_export._show.format import by_consequence

RULES: Final = {
    Kind.DATA: ("the value of a tensor decides", "error"),
    Kind.SHAPE: ("the shape of a tensor decides", "warning"),
    Kind.NOT_READ: ("code that could not be read", "warning"),
    Kind.CALL: ("a call that leaves torch", "warning"),
    Kind.CONFIG: ("a Python constant decides", "note"),
    Kind.SAFE: ("fixed when the model is captured, and meant so", "none"),
}


def as_sarif(findings: Sequence[Finding], remarks: Iterable[Remark], folder: Path) -> dict[str, Any]:
    """Return the log of one run.

    Args:
        findings: the findings of the scan.
        remarks: mistakes in comments; written as notifications of the tool.
        folder: files in this folder are named relative to it, as CI wants; others by absolute path.
    """
    kinds = list(RULES)
    rules = [
        {
            "id": str(kind),
            "shortDescription": {"text": f"{description[0].upper()}{description[1:]}."},
            "defaultConfiguration": {"level": level},
        }
        for kind, (description, level) in RULES.items()
    ]
    driver = {
        "name": "hookpatch-export",
        "semanticVersion": metadata.version("hookpatch-export"),
        "rules": rules,
    }
    notifications = [
        {
            "level": "warning",
            "message": {"text": remark.text},
            "locations": [_location(remark.file, folder, {"startLine": remark.line})],
        }
        for remark in remarks
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"uri": f"{folder.resolve().as_uri()}/"}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": [_result(finding, kinds.index(finding.kind), folder) for finding in findings],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule: int, folder: Path) -> dict[str, Any]:
    level = RULES[finding.kind][1]
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
        "snippet": {"text": finding.source},
    }
    became = "; ".join(f"{modes}: {text}" for modes, text in by_consequence(finding.consequence))
    sentences = [f"{finding.construct} ({finding.kind})", became, f"instead: {finding.instead}" * bool(finding.instead)]
    return {
        "ruleId": str(finding.kind),
        "ruleIndex": rule,
        "level": level,
        "kind": "fail" if level != "none" else "informational",  # with any other kind the level is to be "none"
        "message": {"text": ". ".join(sentence for sentence in sentences if sentence)},
        "locations": [
            _location(finding.file, folder, region) | {"logicalLocations": [{"fullyQualifiedName": finding.route[-1]}]}
            if finding.route
            else _location(finding.file, folder, region)
        ],
        "properties": {"route": list(finding.route)},
    }


def _location(file: Path, folder: Path, region: dict[str, Any]) -> dict[str, Any]:
    if file.is_relative_to(folder.resolve()):
        place = {"uri": file.relative_to(folder.resolve()).as_posix(), "uriBaseId": "ROOT"}
    else:
        place = {"uri": file.as_uri()}
    return {"physicalLocation": {"artifactLocation": place, "region": region}}
