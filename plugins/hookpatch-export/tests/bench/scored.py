"""Compare the findings of the scan with the truth from runs of the models, by line and by capture.

A line is judged if the line ran. The true kind is the worst of the line's decisions. The reported kind is the worst of
the scan's findings on the line, of data and shape.

Not judged:

- lines on which torch alone decides (``inside``);
- lines that read a size from a tensor or give torch such a size (``either``);
- lines that depend on the rank;
- lines that depend on the result of a deciding function (``if fits(x):``, ``beneath``);
- findings with a part that never ran, for example the right side of an ``and``.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from hookpatch_export import Finding, Kind, scan
from truth.case import Inputs
from truth.frames import Place
from truth.judged import KINDS
from truth.source import logical, text

Line = tuple[str, int]
PARTLY: Final = "part of it never ran"


@dataclass
class Scored:
    """A model's score.

    Attributes:
        name: the model.
        seconds: the time of the scan of the instance.
        findings: the number of findings, by kind.
        crash: the error that ended the scan; empty without an error.
        lines: by judged line: the true kind and the reported kind, each ``data``, ``shape`` or None.
        how: by truly deciding line: the operations that decide.
        unjudged: lines with a finding that running cannot judge, with the reason.
        breaks: by mode that failed or froze: the outcome, and ``explained`` if a finding names the cause.
    """

    name: str
    seconds: float
    findings: dict[str, int]
    crash: str
    lines: dict[Line, tuple[str | None, str | None]] = field(default_factory=dict)
    how: dict[Line, list[str]] = field(default_factory=dict)
    unjudged: dict[Line, str] = field(default_factory=dict)
    breaks: dict[str, dict[str, Any]] = field(default_factory=dict)


def scored(model: torch.nn.Module, inputs: Inputs | None, truth: dict[str, Any]) -> Scored:
    """Scan a model, with the capture's inputs or without, and compare the findings with the model's truth."""
    start = time.process_time()
    crash = ""
    try:
        findings = scan(model) if inputs is None else scan(model, keywords=inputs)
    except Exception as error:  # a crash of the scan counts as no findings, and is reported
        crash, findings = f"{type(error).__name__}: {error} at {traceback.extract_tb(error.__traceback__)[-1]}", []
    seconds = time.process_time() - start
    counts: dict[str, int] = {}
    for finding in findings:
        counts[str(finding.kind)] = counts.get(str(finding.kind), 0) + 1
    score = Scored(truth["name"], seconds, counts, crash)
    _lines(score, findings, truth["lines"])
    _breaks(score, findings, truth)
    return score


def _place(finding: Finding) -> Line:
    return tuple(logical(Place(str(Path(finding.file).resolve()), finding.line)))


def _lines(score: Scored, findings: list[Finding], truth: dict[str, Any]) -> None:
    ran = {tuple(logical(Place(file, line))) for file, lines in truth["ran"].items() for line in lines}
    places = {kind: {(entry["file"], entry["line"]) for entry in truth[kind]} for kind in KINDS}
    score.how = {(entry["file"], entry["line"]): entry["how"] for kind in ("shape", "data") for entry in truth[kind]}
    reported: dict[Line, Kind] = {}
    partly: set[Line] = set()
    for finding in findings:
        if finding.kind in (Kind.DATA, Kind.SHAPE) and (line := _place(finding)) in ran:
            reported[line] = max(finding.kind, reported.get(line, finding.kind))
            if _never_ran(finding, truth["never"].get(line[0], [])):
                partly.add(line)
    for line in places["data"] | places["shape"] | reported.keys():
        true = "data" if line in places["data"] else "shape" if line in places["shape"] else None
        if list(line) in truth["unreached"]:
            score.unjudged[line] = "where something captures it is not reached"
        elif true is None and line in places["either"]:
            score.unjudged[line] = "a size read from a tensor, or made of its values"
        elif true is None and line in places["rank"]:
            score.unjudged[line] = "the rank decides"
        elif true is None and line in places["inside"]:
            score.unjudged[line] = "torch decides, not the line"
        elif true is None and list(line) in truth["beneath"]:
            score.unjudged[line] = "what it calls decides, and may decide by what it returns"
        elif true is None and line in partly:
            score.unjudged[line] = PARTLY
        else:
            score.lines[line] = (true, str(reported[line]) if line in reported else None)


def _never_ran(finding: Finding, spans: list[list[int]]) -> bool:
    """Return True if a part of the finding's code did not run."""
    start, end = (finding.line, finding.column - 1), (finding.end_line, finding.end_column - 1)
    return any(start <= (line, column) and (last, after) <= end for line, last, column, after in spans)


def _breaks(score: Scored, findings: list[Finding], truth: dict[str, Any]) -> None:
    reported = {_place(finding) for finding in findings if finding.kind in (Kind.DATA, Kind.SHAPE)}
    unreached = {tuple(line) for line in truth["lines"]["unreached"]}
    decides = [entry for kind in ("data", "shape", "either") for entry in truth["lines"][kind]]
    decides = [entry for entry in decides if (entry["file"], entry["line"]) not in unreached]
    for mode, outcome in truth["modes"].items():
        if outcome["became"] == "fine":
            continue
        place = tuple(outcome["place"]) if outcome["place"] else None
        if outcome["became"] == "failed":
            if outcome["cause"] not in ("data", "shape"):
                continue
            candidates = [place] if place else [(entry["file"], entry["line"]) for entry in decides]
        else:
            number = int(outcome["said"].split()[1].rstrip(":"))
            candidates = [(entry["file"], entry["line"]) for entry in decides if number in entry["differs"]]
            if not candidates:  # no line decides otherwise for the input: the exporter itself is wrong
                continue
        lines = [line for line in candidates if line in reported]
        score.breaks[mode] = {
            "became": outcome["became"],
            "said": outcome["said"],
            "candidates": [f"{short(line)} {text(Place(*line))}" for line in candidates],
            "explained": bool(lines),
        }


def short(line: Line) -> str:
    """Return a line's place without the folders of the machine."""
    file = line[0].rpartition("site-packages/")[2].rpartition("/tests/")[2]
    return f"{file}:{line[1]}"
