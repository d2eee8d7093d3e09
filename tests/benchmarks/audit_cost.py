"""What ``hookpatch audit`` costs a program that imports torch and transformers: the start, and the whole program.

usage: python tests/benchmarks/audit_cost.py [RUNS]

Runs with and without the audit take turns. Medians of processor time: other work on the machine counts little.
The goal: the imports take at most a tenth longer.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from _timing import heading, table, verdict

PROGRAM: Final = """
import os
import torch, transformers
from transformers import BertConfig, BertModel
print(sum(os.times()[:2]))
"""
GOAL: Final = 1.1


def run(command: list[str]) -> tuple[float, float]:
    """Run the program; return the seconds of processor time until the imports have ended, and of all processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    completed = subprocess.run(command, env=clean, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(completed.stdout.splitlines()[0]), used


def main(rounds: int) -> None:
    """Print the medians and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(PROGRAM)
        plain, audited = [sys.executable, str(script)], [sys.executable, "-m", "hookpatch", "audit", str(script)]
        run(plain), run(audited)  # compiles the modules
        times = [(run(plain), run(audited)) for _ in range(rounds)]
    heading(f"torch, transformers and BERT, seconds of processor time, medians of {rounds} interleaved runs")
    rows = [["", "imports", "whole"]]
    for name, index in (("python", 0), ("hookpatch audit", 1)):
        rows.append([name, *(f"{median(pair[index][part] for pair in times):.2f}" for part in (0, 1))])
    table(rows)
    ratio = median(with_audit[0] / without[0] for without, with_audit in times)
    print(f"  imports {ratio:.3f} of those without an audit  {verdict(ratio, GOAL)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 9)
