"""Compile one statement of a file as Python compiles it there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import CodeType

from hookpatch._engine.source.pieces import NotThere

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def compiled_statement(tree: ast.Module, top: int, file: str) -> CodeType:
    """Return the code of one top-level statement. Nothing is executed.

    Python compiles a call ``name.f()`` otherwise if the module imports ``name``, and ``super().f()`` if the module
    itself mentions ``super``. So those statements of the module are compiled along.

    Raises:
        NotThere: the statement is no valid Python.
    """
    beside = [node for node in _in_scope_of_module(tree.body) if _decides(node)]
    beside.sort(key=lambda node: getattr(node, "module", None) != "__future__")
    try:
        return compile(ast.Module([*beside, tree.body[top]], []), file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise NotThere(f"what comes of the edit cannot be compiled: {error.msg} (line {error.lineno})") from None


def _in_scope_of_module(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the statements of a module that are not inside a function or a class."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(node, _Scope):
            yield from _in_scope_of_module(ast.iter_child_nodes(node))


def _decides(node: ast.stmt) -> bool:
    """Return True if a statement of a module decides how calls elsewhere in the module are compiled."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    is_simple = isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Delete)
    return is_simple and any(isinstance(name, ast.Name) and name.id == "super" for name in ast.walk(node))
