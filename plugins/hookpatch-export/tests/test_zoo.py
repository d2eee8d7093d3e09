"""The zoo: each model's marks agree with runs of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import zoo
from hookpatch_export import scan
from truth.frames import Place
from truth.judged import KINDS, lines
from truth.modes import captured

pytestmark = pytest.mark.model


@pytest.mark.parametrize("name", [*zoo.animals()])
def test_marks_are_true(name: str) -> None:
    """A model run on all its inputs decides by values and by sizes on exactly the marked lines."""
    marks = zoo.animals()[name].marks()

    facts = lines(zoo.case(name))

    assert facts["stopped"] is None
    decided = {kind: {(entry["file"], entry["line"]): entry["how"] for entry in facts[kind]} for kind in KINDS}
    marked = {kind: {place for place, mark in marks.items() if mark == kind} for kind in ("data", "shape", "config")}
    assert decided["shape"].keys() - decided["data"].keys() == marked["shape"], decided["shape"]
    assert decided["data"].keys() <= marked["data"] <= decided["data"].keys() | decided["either"].keys(), decided
    assert decided["rank"].keys() <= marked["config"], decided["rank"]
    assert all(line in facts["ran"][file] for file, line in marks), "a marked line did not run"


@pytest.mark.parametrize(
    ("name", "mode", "became", "words"),
    [
        ("IfOnValue", "trace", "froze", "values differ"),
        ("IfOnValue", "export", "failed", "data-dependent"),
        ("IfOnSize", "trace", "froze", "values differ"),
        ("IfOnSize", "export", "failed", "Constraints violated"),
        ("IfOnSize", "script", "fine", ""),
        ("Arithmetic", "trace", "fine", ""),
        ("Arithmetic", "export", "fine", ""),
    ],
)
def test_captures(name: str, mode: str, became: str, words: str) -> None:
    """Runs tell captures apart that fail, that silently freeze a branch, and that agree with eager mode."""
    outcome = captured(zoo.case(name), mode)

    assert (outcome.became, words in outcome.said) == (became, True), outcome
    if became == "failed" and words == "data-dependent":
        assert outcome.cause == "data"
        assert outcome.place is not None
        assert outcome.place in {Place(*place) for place in zoo.animals()[name].marks()}


@pytest.mark.parametrize("name", [*zoo.animals()])
def test_scan_finds_the_marks(name: str) -> None:
    """The scan finds the marked lines with the marked kinds, and no others; of several on a line the worst counts."""
    findings = scan(zoo.case(name).build(), root=Path(zoo.__file__).parent)

    kinds = {
        (str(finding.file), finding.line): str(finding.kind)
        for finding in sorted(findings, key=lambda finding: finding.kind)
    }

    assert kinds == zoo.animals()[name].marks()


def test_forty_models() -> None:
    """The zoo has at least forty models, and every kind is among their marks."""
    assert len(zoo.animals()) >= 40
    assert {kind for animal in zoo.animals().values() for kind in animal.marks().values()} == {
        "data",
        "shape",
        "config",
        "safe",
        "call",
    }
