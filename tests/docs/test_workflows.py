"""GitHub accepts the workflows and the action, which run the targets of this repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from environments import ROOT

yaml = pytest.importorskip("yaml")  # not on the other Pythons, where these tests are not run

pytestmark = [pytest.mark.once, pytest.mark.repository]

GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
ACTION = GITHUB / "actions" / "hookpatch-check" / "action.yml"
UPGRADES = ROOT / "docs" / "how-to" / "upgrades.md"


def problems(schema: str, *files: Path) -> str:
    """Return the errors of files against GitHub's schema."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        f"vendor.github-{schema}",
        *map(str, files),
    ]
    completed = subprocess.run(command, capture_output=True, text=True)
    return "" if completed.returncode == 0 else completed.stdout + completed.stderr


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_github_accepts_them(tmp_path: Path) -> None:
    """The workflows, the action, and the workflow that a page shows; a misspelt key is found."""
    shown = tmp_path / "shown.yml"
    [block] = re.findall(r"```yaml\n(.*?)```", UPGRADES.read_text(), re.DOTALL)
    shown.write_text(block)
    assert len(WORKFLOWS) == 2
    assert problems("workflows", *WORKFLOWS, shown) == ""
    assert problems("actions", ACTION) == ""
    shown.write_text(block.replace("runs-on", "run-on"))
    assert "run-on" in problems("workflows", shown)


def test_five_pythons_are_those_of_the_classifiers() -> None:
    """Each lane for another system says: never run."""
    jobs = read(GITHUB / "workflows" / "ci.yml")["jobs"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    pythons = [line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)]
    assert jobs["core"]["strategy"]["matrix"]["python"] == pythons
    assert len(pythons) == 5
    for job in jobs.values():
        systems = job.get("strategy", {}).get("matrix", {}).get("os", [])
        assert not systems or (job["continue-on-error"] and "never run here" in job["name"])
    assert {*jobs["elsewhere"]["strategy"]["matrix"]["os"]} == {"macos-latest", "windows-latest"}


def test_nightly_check_names_plugins_that_are_there() -> None:
    """Each plugin of the matrix is in a distribution that the job installs; the action has each input."""
    [job] = read(GITHUB / "workflows" / "nightly.yml")["jobs"].values()
    install, use = job["steps"][-2:]
    folders = [ROOT / word for word in install["run"].split() if word.startswith("plugins/")]
    plugins = {
        name
        for folder in folders
        for name in tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]["hookpatch"]
    }
    rows = job["strategy"]["matrix"]["include"]
    assert {name for row in rows for name in row["plugin"].split()} <= plugins
    assert (ROOT / use["uses"] / "action.yml") == ACTION
    action = read(ACTION)
    assert {*use["with"]} <= {*action["inputs"]}
    documented = re.findall(r"^\| `(\w+)` \|", UPGRADES.read_text().partition("| input |")[2], re.MULTILINE)
    assert documented[:4] == [*action["inputs"]]
    for step in action["runs"]["steps"]:
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
