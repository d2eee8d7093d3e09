"""Compile one statement of a file exactly as Python compiles the statement in the file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from inspect import CO_ITERABLE_COROUTINE
from types import CodeType
from typing import TypeAlias

from hookpatch._engine.source.pieces import UnfitEdit

Way: TypeAlias = tuple[tuple[str, int], ...]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def compiled_statement(tree: ast.Module, top: int, file: str) -> CodeType:
    """Return the code of a top-level statement. No code is executed.

    Python compiles a call ``name.f()`` otherwise if the module imports ``name``, and ``super().f()`` if the module
    itself mentions ``super``. Therefore the statements with these imports and mentions are compiled along.

    Raises:
        UnfitEdit: the statement is no valid Python.
    """
    beside = [node for node in _in_scope_of_module(tree.body) if _decides(node)]
    beside.sort(key=lambda node: getattr(node, "module", None) != "__future__")
    try:
        return compile(ast.Module([*beside, tree.body[top]], []), file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UnfitEdit(f"what comes of the edit cannot be compiled: {error.msg} (line {error.lineno})") from None


def parsed(text: str, file: str) -> ast.Module:
    """Return the tree of a file; raise UnfitEdit if an edit has left no Python."""
    try:
        return ast.parse(text, file)
    except SyntaxError as error:
        position = f"line {error.lineno}: {(error.text or '').strip()!r}"
        raise UnfitEdit(f"what comes of the edit cannot be read: {error.msg} ({position})") from None


def codes_in(code: CodeType, way: Way = ()) -> Iterator[tuple[Way, CodeType]]:
    """Yield all codes inside a code, each with the place: level by level a name, and a number among equal names."""
    counts: Counter[str] = Counter()
    for inner in [constant for constant in code.co_consts if isinstance(constant, CodeType)]:
        place = (*way, (inner.co_name, counts[inner.co_name]))
        counts[inner.co_name] += 1
        yield place, inner
        yield from codes_in(inner, place)


def first_line(node: ast.stmt | ast.expr) -> int:
    """Return the line where a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def marked_like(code: CodeType, running: CodeType) -> CodeType:
    """Return a code with the mark of ``types.coroutine``, if the running code has the mark."""
    mark = running.co_flags & CO_ITERABLE_COROUTINE
    return code.replace(co_flags=code.co_flags | mark) if mark else code


def doc_of(node: Definition) -> str | None:
    """Return the documentation of a function."""
    return None if isinstance(node, ast.Lambda) else ast.get_docstring(node, clean=False)


def without_doc(node: Definition) -> str:
    """Return the arguments and the body of a function as one text, without the documentation."""
    body = [] if isinstance(node, ast.Lambda) else node.body[doc_of(node) is not None :]
    return "".join(map(ast.dump, [node.args, *body]))


def annotations_of(node: Definition) -> list[str]:
    """Return the annotations of a function, each as a text."""
    arguments = [argument for argument in ast.walk(node.args) if isinstance(argument, ast.arg) and argument.annotation]
    shown = [f"{argument.arg}: {ast.dump(argument.annotation)}" for argument in arguments if argument.annotation]
    returns = getattr(node, "returns", None)
    return [*shown, ast.dump(returns) if returns else ""]


def classes_in(node: ast.AST, around: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes inside a node, each with the qualified name."""
    for child in ast.iter_child_nodes(node):
        inside = around
        if isinstance(child, _Scope):
            inside = f"{around}{child.name}." if isinstance(child, ast.ClassDef) else f"{around}{child.name}.<locals>."
        if isinstance(child, ast.ClassDef):
            yield inside[:-1], child
        yield from classes_in(child, inside)


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
