"""Print how hookpatch, wrapt and mock fare in the cells of tests/beside.py, as a table of Markdown.

python tests/benchmarks/silent.py
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from beside import TOOLS, cells, verdict


def main() -> int:
    """Print a row for each way of a call; return 1 if hookpatch is silently wrong in a cell."""
    sys.dont_write_bytecode = True
    tally: Counter[tuple[str, str, str]] = Counter()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        for cell in cells():
            for tool in TOOLS:
                judged, words = verdict(tool, cell, Path(folder))
                tally[cell.way, tool, judged] += 1
                if tool == "hookpatch" and judged == "silent":
                    bad += 1
                    print(cell, words, file=sys.stderr)
    print(f"| the way of the call or query | {' | '.join(TOOLS)} |\n|---|{'---|' * len(TOOLS)}")
    for way in dict.fromkeys(cell.way for cell in cells()):
        judged = ([tally[way, tool, judgement] for judgement in ("right", "loud", "silent")] for tool in TOOLS)
        print(f"| {way} | {' | '.join(' / '.join(map(str, counts)) for counts in judged)} |")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
