"""SARIF 2.1.0, for editors and CI: the log follows the schema and the standard's text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hookpatch_export._findings.ignore_comments import Remark
from hookpatch_export._show.sarif import as_sarif
from typer.testing import CliRunner

from hookpatch.command import app

pytestmark = pytest.mark.model

SOURCE = """
import torch
class Net(torch.nn.Module):
    def forward(self, x, y=None):
        if y is None:  # hookpatch: ignore[shap]
            y = x
        if x.sum() > 0:
            x = x + 1
        return x[: len(x)] if x.shape[0] > 2 else y
"""


@pytest.fixture
def log(write_module: Callable[[str, str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the log of `hookpatch scan --sarif` for a model with a finding of each level."""
    monkeypatch.chdir(folder)
    write_module("net", SOURCE)
    result = CliRunner().invoke(app, ["scan", "net.py:Net", "--sarif", "scan.sarif", "--level", "safe"])
    assert result.exit_code == 0, result.output
    return json.loads((folder / "scan.sarif").read_text())


def locations(run: Any) -> Iterator[Any]:
    for holder in [*run["results"], *run["invocations"][0]["toolExecutionNotifications"]]:
        yield from (location["physicalLocation"] for location in holder["locations"])


def test_log_is_of_version_2_1_0(log: Any) -> None:
    """The log has version and runs, the tool has a name, and rule ids are unique (3.13, 3.14, 3.19, 3.49)."""
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    [run] = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "hookpatch-export"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids) == 6
    assert all(rule["shortDescription"]["text"].endswith(".") for rule in driver["rules"])
    assert run["invocations"][0]["executionSuccessful"] is True
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")


def test_results_name_their_rule_and_level(log: Any) -> None:
    """ruleIndex agrees with ruleId. The level is "none" if the kind is not "fail" (3.27.6, 3.27.9, 3.27.10)."""
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {result["ruleId"] for result in run["results"]} >= {"data", "shape", "safe"}
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert result["level"] == rule["defaultConfiguration"]["level"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert (result["kind"] == "fail") == (result["level"] != "none")
        assert result["message"]["text"]


def test_places_can_be_found(log: Any, folder: Path) -> None:
    """Lines and columns from 1, an end behind the start, addresses from a base (3.4, 3.14.14, 3.30)."""
    [run] = log["runs"]
    base = run["originalUriBaseIds"]["ROOT"]["uri"]
    assert base == f"{folder.as_uri()}/"
    places = list(locations(run))
    assert len(places) == len(run["results"]) + 1
    lines = (folder / "net.py").read_text().splitlines()
    for place in places:
        assert place["artifactLocation"] == {"uri": "net.py", "uriBaseId": "ROOT"}
        region = place["region"]
        assert 1 <= region["startLine"] <= len(lines)
        if "snippet" in region:
            assert lines[region["startLine"] - 1].strip() == region["snippet"]["text"]
            assert region["endLine"] >= region["startLine"]
            assert region["startColumn"] >= 1
            assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
    worst = next(result for result in run["results"] if result["ruleId"] == "data")
    region = worst["locations"][0]["physicalLocation"]["region"]
    assert lines[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1] == "x.sum() > 0"


def test_remarks_are_notifications_and_other_files_have_whole_addresses(log: Any, tmp_path: Path) -> None:
    """A wrong comment is a notification, not a result. A file outside of the root has an absolute address."""
    [notification] = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notification["level"] == "warning"
    assert notification["message"]["text"].startswith("'# hookpatch: ignore[shap]' names no kind of finding")
    elsewhere = as_sarif([], [Remark(Path("/elsewhere/a b.py"), 3, "x")], tmp_path)["runs"][0]
    [place] = locations(elsewhere)
    assert place["artifactLocation"] == {"uri": "file:///elsewhere/a%20b.py"}
