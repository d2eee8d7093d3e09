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
from launcher_cells import NAMES, Cell, all_launchers, home, in_groups, run_group


def main() -> int:
    """Print a row of the table after each group of launchers; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="a launcher")
    parser.add_argument("--names", action="append", choices=NAMES)
    options = parser.parse_args()
    bad: list[Cell] = []
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        build(ROOT, Path(folder), "--wheel")
        where = home(Path(folder) / "home", Path(folder))
        launchers = options.only or all_launchers(where)
        print("| launcher | cells | right | loud |\n|---|---|---|---|", flush=True)
        for group in in_groups(launchers):
            cells = [cell for names in options.names or NAMES for cell in run_group(where, names, group)]
            for launcher in group:
                count = Counter(cell.verdict for cell in cells if cell.launcher == launcher)
                print(_row(launcher, count), flush=True)
                total += count
            bad += [cell for cell in cells if cell.verdict not in ("right", "loud")]
    print(_row("all", total))
    print(f"\n{len(launchers)} launchers, {total.total()} cells: {len(bad)} silent or false")
    for cell in bad:
        print(*cell, sep=" | ", file=sys.stderr)
    return bool(bad)


def _row(name: str, count: Counter[str]) -> str:
    return f"| {name} | {count.total()} | {count['right']} | {count['loud']} |"


if __name__ == "__main__":
    sys.exit(main())
