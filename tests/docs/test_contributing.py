"""The files and commands that CONTRIBUTING.md, the Makefile and the issue forms name exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

# Files without a row of their own: the face, two doors, the hooks' texts, a shared file.


def paths_in(cell: str) -> Iterator[Path]:
    """Yield the paths in a cell; a path without a folder lies beside the path before."""
    folder = Path()
    for word in re.findall(r"`([^`]+)`", cell):
        folder = Path(word).parent if "/" in word else folder
        yield folder / Path(word).name


def rows() -> list[list[str]]:
    """Return the cells of the table, without its head."""
    table = PAGE.read_text().partition("## Where to change what\n")[2]
    lines = [re.split(r" \| ", line.strip("| ")) for line in table.splitlines() if line.startswith("|")]
    return lines[2:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[1])
def test_row_names_files_that_are_there(row: list[str]) -> None:
    """Symptom, files, tests; the files are ours and the tests are tests."""
    assert len(row) == 3
    for cell in row[1:]:
        paths = [*paths_in(cell)]
        assert paths
        for path in paths:
            assert [*ROOT.glob(str(path))], path
    assert all("test" in str(path) for path in paths_in(row[2]))


def test_each_room_has_one_row() -> None:
    """Each room, and each file at the root, is named in exactly one row."""
    package = ROOT / "hookpatch"
    folders = {path.parent.relative_to(ROOT).as_posix() for path in package.rglob("__init__.py")}
    rooms = folders - {"hookpatch", "hookpatch/_engine"}
    at_the_root = {path.relative_to(ROOT).as_posix() for path in package.glob("*.py")}
    rowed = [path.as_posix() for row in rows() for path in paths_in(row[1]) if path.parts[0] == "hookpatch"]
    assert sorted(rowed) == sorted(rooms | at_the_root)


def test_each_plugin_has_its_row() -> None:
    """All but the example."""
    packages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("plugins/*/hookpatch_*") if path.is_dir()}
    rowed = {path.as_posix() for row in rows() for path in paths_in(row[1])}
    assert packages - rowed == {"plugins/hookpatch-example-printer/hookpatch_example_printer"}


def test_every_target_of_make_has_its_line() -> None:
    """`make` prints a line for each target, without exception."""
    text = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert targets is not None
    printed = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [re.fullmatch(r"make (\S+) +(\S.*)", line) for line in printed.stdout.splitlines()]
    assert sorted(line[1] for line in lines if line) == sorted(targets[1].replace("\\\n", " ").split())
    assert all(lines)
    assert max(map(len, printed.stdout.splitlines())) <= 80


def test_commands_that_are_told_are_there() -> None:
    """Each `make TARGET` in the pages for users and developers."""
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    for page in (PAGE, ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        named = {*re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(), re.MULTILINE)}
        assert named <= targets, page


def test_versions_of_tools_agree() -> None:
    """The versions before a commit are those of `make check`, pinned in constraints.txt."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    hooks = re.findall(r"([\w-]+)==([\w.]+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert {name for name, _ in hooks} == {"ruff", "pre-commit-hooks"}
    assert all(pins[name] == version for name, version in hooks)
    assert {"ruff", "mypy", "basedpyright", "pytest", "pre-commit"} <= pins.keys()


def test_changelog_has_what_is_to_be_released_on_top() -> None:
    """The changelog has the form of Keep a Changelog: sections of six kinds, none empty."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0].startswith("Unreleased")
    assert version in " ".join(heads)
    kinds = re.findall(r"^### (.*)\n\n(.)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert {kind for kind, _ in kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {first for _, first in kinds} == {"-"}


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.stem
)
def test_form_asks_for_what_there_is(form: Path) -> None:
    """Each hookpatch command in an issue form exists."""
    text = form.read_text()
    for key in ("name:", "description:", "body:"):
        assert re.search(f"^{key}", text, re.MULTILINE), key
    commands = {*re.findall(r"`hookpatch (\w+)", text)}
    files = {path.stem.strip("_") for path in (ROOT / "hookpatch" / "command").glob("_*.py")}
    assert commands <= files
