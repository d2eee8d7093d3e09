"""Interrupts: whatever a signal handler raises, and wherever, patches hold as a whole, and what ended is as before."""

from __future__ import annotations

import subprocess
import sys

import pytest
from environments import ROOT
from interrupts import works


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or a coverage tool traces already")
def test_interrupt_leaves_nothing_behind() -> None:
    """At some of the lines and instructions of each piece of work, and by a timer; `make interrupts` tries all.

    In a process of its own, which has imported little: each point is a fork.
    """
    script = ROOT / "tests" / "benchmarks" / "interrupts.py"
    command = [sys.executable, script, "--most", "12", "--only", "hookpatch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row[0] for row in rows] == [*works()]
    for _, *cells in rows:
        assert all(cell.startswith("0 of ") and int(cell.split()[-1]) > 5 for cell in cells), rows
