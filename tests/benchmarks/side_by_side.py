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
    found, what, version = {}, "", ""
    for line in printed.splitlines():
        if heading := HEADING.match(line):
            what, version = heading["what"], heading["version"]
        elif ratio := RATIO.match(line):
            found[what, ratio["other"]] = ratio["ratio"]
    return version, found


def main(pythons: list[str], benchmarks: list[str]) -> None:
    """Print a row for each comparison, a column for each Python."""
    columns: dict[str, dict[tuple[str, str], str]] = {}
    for benchmark in benchmarks:
        for python in pythons:
            version, found = ratios(python, benchmark)
            columns.setdefault(version, {}).update(found)
    print(f"| | to | {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * len(columns)}")
    for what, other in dict.fromkeys(key for found in columns.values() for key in found):
        cells = " | ".join(found.get((what, other), "") for found in columns.values())
        print(f"| {what} | `{other}` | {cells} |")


if __name__ == "__main__":
    at = sys.argv.index("--")
    main(sys.argv[1:at], sys.argv[at + 1 :])
