"""The table of docs/why.md agrees with its probes, for the tools that are installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from environments import ROOT

pytestmark = pytest.mark.once

BENCHMARKS = ROOT / "tests" / "benchmarks"


def of_page(tool: str) -> dict[str, str]:
    """Return a tool's column, by question: yes, **no** or -."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in (ROOT / "docs" / "why.md").read_text().splitlines()
        if line.startswith("|") and line.count(" | ") > 5
    ]
    heads, *body = rows
    return {row[0]: row[heads.index(tool)] for row in body}


@pytest.mark.parametrize("tool", ["hookpatch", "by hand", "mock", "pytest", "wrapt"])
def test_table_says_what_the_probes_find(tool: str) -> None:
    """Each probe runs in a process of its own; `make bench-restore` has the tools that are not installed."""
    command = [sys.executable, str(BENCHMARKS / "restore_probes.py"), tool]
    answers = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    page = of_page(tool)
    assert answers
    for question, answer in answers.items():
        cell = page.get(question)
        assert cell == (answer if answer in ("yes", "-") else "**no**"), (question, answer)
    if tool == "hookpatch":
        assert set(answers.values()) == {"yes"}
