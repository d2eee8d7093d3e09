"""The verdicts on the cells of the launchers' matrix: right, loud, silent, or a false alarm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from environments import LOUD, ROOT, Environment, furnished
from launching_programs import FILES

import hookpatch

NAMES: Final = ("environment", "block", "task", "require")
PROGRAM: Final = ROOT / "tests" / "launching.py"
_AT_A_TIME: Final = 4
_HANGS: Final = 3600.0  # seconds: a busy machine needs some minutes for four launchers
WORKER: Final = "import sys, vendor\nopen(sys.argv[1], 'w').write(vendor.speak())\n"


class Cell(NamedTuple):
    """A launch: the position in the matrix, the verdict, and the reason."""

    launcher: str
    environment: str
    names: str
    phase: str
    verdict: str
    why: str


def home(folder: Path, wheels: Path) -> Environment:
    """Return an environment with a plugin, and the vendor's module and a worker in its current folder."""
    files = {"vendor.py": "def speak(): return 'vendor'\n", "worker.py": WORKER, **FILES}
    return furnished(folder, wheels, {"loud": LOUD}, files)


def wanted(environment: str, names: str, phase: str) -> str:
    """Return the expected word of a child process."""
    is_patched = names == "environment" or phase == "inside"
    return "VENDOR" if is_patched else "vendor"


def _verdict(cell: dict[str, Any], stderr: str, problems: Sequence[str]) -> tuple[str, str]:
    is_right = cell["said"] == wanted(cell["environment"], cell["names"], cell["phase"])
    messages = [text for text in (cell["error"], *cell["warnings"], *problems) if text]
    messages += [line for line in stderr.splitlines() if cell["path"] in line]
    if is_right:
        return ("false", messages[0]) if messages else ("right", "")
    return ("loud", messages[0]) if messages else ("silent", f"said {cell['said']!r}")


def in_groups(launchers: Sequence[str]) -> list[Sequence[str]]:
    """Return the launchers in groups, for a program each."""
    return [launchers[start : start + _AT_A_TIME] for start in range(0, len(launchers), _AT_A_TIME)]


def run_launchers(home: Environment, names: str, launchers: Sequence[str]) -> list[Cell]:
    """Run a row of launchers, some in each program; return the cells."""
    return [cell for group in in_groups(launchers) for cell in run_group(home, names, group)]


def run_group(home: Environment, names: str, launchers: Sequence[str]) -> list[Cell]:
    """Run some launchers in one program; return the cells."""
    reports = home.folder / f"reports-{names}-{abs(hash(tuple(launchers)))}"
    variables = {"HOOKPATCH_REPORT": str(reports), "PYTHONPATH": str(home.folder)}
    if names == "environment":
        variables["HOOKPATCH_PLUGINS"] = "loud"
    completed = home.run(PROGRAM, names, *launchers, timeout=_HANGS, **variables)
    assert completed.returncode == 0, completed.stderr
    report = hookpatch.receipts(reports)
    cells = []
    for line in completed.stdout.splitlines():
        if line.startswith("{"):
            cell = json.loads(line)
            problems = [
                problem
                for process in report
                for problem in process.problems
                if cell["path"] in problem or cell["path"] in " ".join(process.argv)
            ]
            if cell["launcher"] == "a subinterpreter":  # no process: look for a warning of the patch
                problems += [warning for warning in report.warnings if "interpreter" in warning]
                problems += [text for text in report.problems if "an interpreter" in text and cell["phase"] == "inside"]
            verdict, why = _verdict(cell, completed.stderr, problems)
            cells.append(Cell(cell["launcher"], cell["environment"], cell["names"], cell["phase"], verdict, why))
    return cells


def all_launchers(home: Environment) -> list[str]:
    """Return the names of all launchers in an environment."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import launching; print(*launching.launchers(), sep='\\n')"
    return home.run("-c", code, PROGRAM.parent).stdout.splitlines()
