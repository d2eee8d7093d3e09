"""The leftovers of hookpatch and nine other ways to patch: the table of docs/why.md, all from one run.

    python tests/benchmarks/restore.py docs/why.md [--python PYTHON]

installs each tool into a separate environment of one Python (3.12 if found, which wrapture needs). The script runs the
probes of restore_probes.py there, and rewrites the text between the marks of the page. A run takes some minutes and
needs a package index. A tool has no column if the installation fails, and is named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments import ROOT, build
from restore_probes import COSTS, NO_WAY, PROBES, YES
from restore_tools import TOOLS

BEGIN, END = "<!-- figures: make bench-restore -->\n", "<!-- end of figures -->\n"
COUNT: Final = """
from importlib.metadata import distributions, version
names = {{one.name for one in distributions()}}
print(len(names), version({name!r}))
"""

Found = dict[str, str]  # the answers of a tool, by question


class Column(NamedTuple):
    """The findings about one tool."""

    tool: str
    version: str  # "" for tools that come with Python
    found: Found


def column(tool: str, python: str, folder: Path, wheels: Path) -> Column | None:
    """Install a tool and run the probes; return None if the tool cannot be installed."""
    distribution = TOOLS[tool].distribution
    environment = folder / tool.replace(" ", "-")
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    its = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", its, "--disable-pip-version-check", "install", "-qq"]
    brings, release = "0", ""
    if distribution is not None:
        requirement = str(next(wheels.glob("hookpatch-*.whl"))) if distribution == "hookpatch" else distribution
        if subprocess.run([*pip, requirement], capture_output=True).returncode:
            return None
        counted = subprocess.run(
            [its, "-c", COUNT.format(name=distribution)], check=True, capture_output=True, text=True
        )
        brings, release = counted.stdout.split()
    subprocess.run([*pip, "wrapt"], check=True, capture_output=True)  # for the probe with a wrapt wrapper on top
    command = [its, str(Path(__file__).with_name("restore_probes.py")), tool, "--costs"]
    completed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return Column(tool, release, {**json.loads(completed.stdout), "distributions installed": brings})


def page(columns: list[Column], missing: list[str], python: str) -> str:
    """Return the table, and the meaning of each *no* in the table."""
    release = subprocess.run([python, "-V"], check=True, capture_output=True, text=True).stdout.strip()
    versions = ", ".join(release_in_words(entry) for entry in columns if entry.version)
    lines = [f"{release}; {versions}."]
    if missing:
        lines[0] += f" Could not be installed: {', '.join(missing)}."
    lines += ["", f"| | {' | '.join(entry.tool for entry in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for question in PROBES:
        lines.append(f"| {question} | {' | '.join(short(entry.found[question]) for entry in columns)} |")
    for question in [*COSTS, "distributions installed"]:
        lines.append(f"| {question} | {' | '.join(entry.found[question] for entry in columns)} |")
    lines += ["", "What happens instead of each **no**:", ""]
    for question in PROBES:
        whose: dict[str, list[str]] = {}
        for entry in columns:
            if short(answer := entry.found[question]) == "**no**":
                whose.setdefault(answer, []).append(entry.tool)
        if whose:
            meanings = "; ".join(
                f"*{answer}* ({', '.join(tools)})" for answer, tools in whose.items() if answer != "no"
            )
            if meanings:
                lines.append(f"- {question}: {meanings}")
    return "\n".join(lines) + "\n"


def release_in_words(column: Column) -> str:
    """Return the release of a tool with the name of the distribution."""
    release = f"{TOOLS[column.tool].distribution} {column.version}"
    return release if release.startswith(column.tool) else f"{column.tool}: {release}"


def short(answer: str) -> str:
    """Return the text of a table cell."""
    return answer if answer in (YES, NO_WAY) else "**no**"


def usable() -> str:
    """Return a Python 3.12 of this machine, else this Python."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for candidate in ["python3.12", *versions.glob("3.12.*/bin/python")]:
        try:  # run, not only looked up: pyenv has a shim for every version, in use or not
            subprocess.run([candidate, "-c", "import venv"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return str(candidate)
    return sys.executable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--python", default=usable())
    arguments = parser.parse_args()
    head, begin, after_begin = arguments.page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = after_begin.partition(END)
    if not (begin and end):
        raise SystemExit(f"{arguments.page} has no lines {BEGIN.strip()} and {END.strip()}")
    columns, missing = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build(ROOT, folder / "dist", "--wheel")
        for tool in TOOLS:
            sys.stderr.write(f"{tool}\n")
            measured = column(tool, arguments.python, folder, folder / "dist")
            if measured is None:
                missing.append(tool)
            else:
                columns.append(measured)
    written = page(columns, missing, arguments.python)
    arguments.page.write_text(f"{head}{BEGIN}{written}{END}{tail}", encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()
