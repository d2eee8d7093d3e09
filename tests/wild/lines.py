"""Count the lines of code that patch, after formatting, without comments, docstrings and imports."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any


def lines_of_functions(addresses: Iterable[str], bodies: AbstractSet[str]) -> int:
    """Count the lines of the functions and classes at addresses such as ``module:name``."""
    sources = (inspect.getsource(inspect.unwrap(pkgutil.resolve_name(address))) for address in addresses)
    return lines("".join(map(textwrap.dedent, sources)), bodies)


def lines_of_file(path: Path, bodies: AbstractSet[str]) -> int:
    """Count the lines of a file."""
    return lines(path.read_text(encoding="utf-8"), bodies)


def lines(source: str, bodies: AbstractSet[str]) -> int:
    """Count the lines of a source. Functions named in ``bodies`` do the work of a patch and are not counted."""
    bare = ast.unparse(_Bare(bodies).visit(ast.parse(source)))
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "-"]
    completed = subprocess.run(command, input=bare, capture_output=True, text=True, check=True)
    return sum(bool(line.strip()) for line in completed.stdout.splitlines())


class _Bare(ast.NodeTransformer):
    def __init__(self, bodies: AbstractSet[str]) -> None:
        self._bodies = bodies

    def visit(self, node: Any) -> Any:
        if isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "name", None) in self._bodies:
            return None
        may_have_one = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if may_have_one and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        self.generic_visit(node)
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]
        return node
