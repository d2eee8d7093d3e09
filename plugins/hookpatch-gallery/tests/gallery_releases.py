"""`make gallery`: each page of docs/gallery says what `hookpatch check --against` prints now.

usage: python gallery_releases.py PAGE...
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

FIGURES = re.compile(
    r"^    hookpatch (check .+)\n\n<!-- figures: make gallery -->\n```text\n(?:.*\n)*?```\n<!-- end of figures -->\n",
    re.MULTILINE,
)


def with_figures(text: str) -> tuple[str, int]:
    """Return a page with the output of its check, and how many checks ended with another status than 0."""
    failed = 0

    def figures(match: re.Match[str]) -> str:
        nonlocal failed
        command = [sys.executable, "-m", "hookpatch", *shlex.split(match[1])]
        completed = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        failed += completed.returncode != 0
        lines = "\n".join(map(str.rstrip, completed.stdout.strip().splitlines()))
        return (
            f"    hookpatch {match[1]}\n\n"
            f"<!-- figures: make gallery -->\n```text\n{lines}\n```\n<!-- end of figures -->\n"
        )

    return FIGURES.sub(figures, text), failed


def main(*pages: str) -> int:
    """Write the figures of each page; return 1 if a check failed."""
    failures = 0
    for page in map(Path, pages):
        text, failed = with_figures(page.read_text())
        page.write_text(text)
        failures += failed
        print(page, "does not fit" if failed else "fits", flush=True)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
