"""The README says what is true: its example prints what it says, and it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_example_prints_what_the_readme_says() -> None:
    """Run as it stands there."""
    (example,), (printed,) = blocks("python"), blocks("text")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (printed, "")


def test_readme_starts_with_the_two_commands_and_is_short() -> None:
    """A newcomer sees them first."""
    lines = README.splitlines()
    assert len(lines) <= 90
    assert [line.split("#")[0].strip() for line in lines[2:4]] == ["make demo", "make test"]


def test_links_lead_somewhere() -> None:
    """Every file that the README links is there."""
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (root / target).exists(), target
