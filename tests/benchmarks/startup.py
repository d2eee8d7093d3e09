"""What the start-up file costs when nothing is asked for: `python -c pass` with hookpatch installed and without.

Two environments of the same Python, the runs interleaved; medians, their difference and ratio.
usage: python tests/benchmarks/startup.py [RUNS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments import ROOT, Environment, build


def milliseconds(python: Path) -> float:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    start = time.perf_counter()
    subprocess.run([str(python), "-c", "pass"], check=True, env=clean)
    return (time.perf_counter() - start) * 1000


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        build(ROOT, Path(folder, "dist"), "--wheel")
        without = Environment(Path(folder, "without"))
        with_us = Environment(Path(folder, "with"))
        with_us.install(*Path(folder, "dist").glob("*.whl"))
        times: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(3):  # files into the page cache
            milliseconds(without.python), milliseconds(with_us.python)
        for _ in range(runs):
            times["without"].append(milliseconds(without.python))
            times["with"].append(milliseconds(with_us.python))
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(f"python -c pass, Python {sys.version.split()[0]}, median of {runs} interleaved runs")
    for name, found in times.items():
        low, _, high = statistics.quantiles(found, n=4)
        print(f"  {name:<8} {medians[name]:7.3f} ms   (quartiles {low:.3f} to {high:.3f})")
    difference, ratio = medians["with"] - medians["without"], medians["with"] / medians["without"]
    print(f"  difference {difference:+.3f} ms, ratio {ratio:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
