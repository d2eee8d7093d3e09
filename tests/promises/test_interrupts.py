"""Interrupts: whatever a signal handler raises, and wherever, patches hold as a whole, and what ended is as before."""

from __future__ import annotations

import subprocess
import sys

import pytest
from environments import ROOT
from interrupts import works


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.parametrize("most", [6, pytest.param(12, marks=pytest.mark.ends)])
def test_interrupt_leaves_nothing_behind(most: int) -> None:
    """At some of the lines and instructions of each piece of work, and by a timer; `make interrupts` tries all."""
    assert _rows(most) == [*works()]


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
@pytest.mark.model
@pytest.mark.ends
def test_interrupt_leaves_nothing_behind_with_torch() -> None:
    """With torch and multiprocessing imported, the patches that these need are restored as well."""
    assert len(_rows(30, "--torch")) > 5


def _rows(most: int, *options: str) -> list[str]:
    """Return the names of the rows of the sweep, in each of which nothing was left behind.

    In a process of its own, which has imported little: each point is a fork.
    """
    script = ROOT / "tests" / "benchmarks" / "interrupts.py"
    command = [sys.executable, script, "--most", str(most), *options, "--only", "hookpatch"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.strip("| ").split(" | ") for line in completed.stdout.splitlines()[2:]]
    assert completed.returncode == 0, completed.stdout + completed.stderr
    for _, *cells in rows:
        assert all(cell.startswith("0 of ") and int(cell.split()[-1]) >= min(most // 2, 6) for cell in cells), rows
    return [row[0] for row in rows]
