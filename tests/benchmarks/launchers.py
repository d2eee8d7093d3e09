"""Launchers by environment, names and phase: is each child process patched as expected, or the failure reported?

usage: python tests/benchmarks/launchers.py [--only LAUNCHER]... [--names NAMES]...
Exit status 1: a child process was wrong silently, or a report was false.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from environments import ROOT, build
from launcher_cells import NAMES, Cell, all_launchers, home, run_launchers


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="a launcher")
    parser.add_argument("--names", action="append", choices=NAMES)
    options = parser.parse_args()
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder:
        build(ROOT, Path(folder), "--wheel")
        where = home(Path(folder) / "home", Path(folder))
        launchers = options.only or all_launchers(where)
        for names in options.names or NAMES:
            cells += run_launchers(where, names, launchers)
    print("| launcher | cells | right | loud |\n|---|---|---|---|")
    for launcher in launchers:
        count = Counter(cell.verdict for cell in cells if cell.launcher == launcher)
        print("|", " | ".join([launcher, *map(str, (count.total(), count["right"], count["loud"]))]), "|")
    count = Counter(cell.verdict for cell in cells)
    print("|", " | ".join(["all", *map(str, (count.total(), count["right"], count["loud"]))]), "|")
    bad = [cell for cell in cells if cell.verdict not in ("right", "loud")]
    print(f"\n{len(launchers)} launchers, {len(cells)} cells: {len(bad)} silent or false")
    for cell in bad:
        print(*cell, sep=" | ", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
