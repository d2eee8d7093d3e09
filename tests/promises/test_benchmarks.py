"""The benchmarks of the repository can be started: each name that one imports from another exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from environments import ROOT

pytestmark = [pytest.mark.once, pytest.mark.repository]


def missing_names(path: Path) -> list[str]:
    """Return the names that a file imports from a file beside it, and that the other file does not define."""
    missing = []
    for node in ast.walk(ast.parse(path.read_text())):
        neighbour = path.with_name(f"{node.module}.py") if isinstance(node, ast.ImportFrom) else path
        if neighbour != path and neighbour.exists():
            defined = names_of(neighbour)
            missing += [f"{path.name}: {alias.name}" for alias in node.names if alias.name not in defined]
    return missing


def names_of(path: Path) -> set[str]:
    """Return the names that the statements of a module bind."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return names


def test_a_benchmark_imports_only_names_that_exist(tmp_path: Path) -> None:
    """A rename in one benchmark had left another with a name that was gone."""
    benchmarks = [*(ROOT / "tests" / "benchmarks").glob("*.py"), *ROOT.glob("plugins/*/tests/**/bench*.py")]
    assert len(benchmarks) > 25
    assert [name for path in benchmarks for name in missing_names(path)] == []
    (tmp_path / "one.py").write_text("def run(): ...\n")
    (tmp_path / "two.py").write_text("from one import gone, run\n")
    assert missing_names(tmp_path / "two.py") == ["two.py: gone"]
