"""The ratios of other benchmarks on several Pythons, side by side, as a table of Markdown.

usage: python tests/benchmarks/side_by_side.py PYTHON ... -- BENCHMARK ...
example: python tests/benchmarks/side_by_side.py .venv/bin/python .venv-3.15/bin/python -- calls sessions
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HEADING = re.compile(r"^(?P<what>\S.*) \(\w+ (?P<version>[\d.]+)\)$")
RATIO = re.compile(r"^  (?P<other>.+?)\s{2,}[\d.,]+ \S+\s+(?P<ratio>[\d.]+) of it")


def ratios(python: str, benchmark: str) -> tuple[str, dict[tuple[str, str], str]]:
    """Run a benchmark; return Python's version, and the ratios by measurement and compared tool."""
    script = Path(__file__).with_name(f"{benchmark}.py")
    printed = subprocess.run([python, script], capture_output=True, text=True, check=True).stdout
    by_pair, measurement, version = {}, "", ""
    for line in printed.splitlines():
        if heading := HEADING.match(line):
            measurement, version = heading["what"], heading["version"]
        elif ratio := RATIO.match(line):
            by_pair[measurement, ratio["other"]] = ratio["ratio"]
    return version, by_pair


def main(pythons: list[str], benchmarks: list[str]) -> None:
    """Print a row for each comparison, a column for each Python."""
    columns: dict[str, dict[tuple[str, str], str]] = {}
    for benchmark in benchmarks:
        for python in pythons:
            version, by_pair = ratios(python, benchmark)
            columns.setdefault(version, {}).update(by_pair)
    print(f"| | to | {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    for measurement, tool in dict.fromkeys(key for by_pair in columns.values() for key in by_pair):
        cells = " | ".join(by_pair.get((measurement, tool), "") for by_pair in columns.values())
        print(f"| {measurement} | `{tool}` | {cells} |")


if __name__ == "__main__":
    separator = sys.argv.index("--")
    main(sys.argv[1:separator], sys.argv[separator + 1 :])
