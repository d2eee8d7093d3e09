"""Source as it is compared: without comments, formatting and docstrings, which change nothing that a patch meets."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterator
from textwrap import dedent
from types import FunctionType
from typing import Any


def source_of(thing: Any) -> str | None:
    """Return the normalised source of a function, class, property or method; None where there is none to be had."""
    if isinstance(thing, property):
        parts = [source_of(part) for part in (thing.fget, thing.fset, thing.fdel) if part is not None]
        return "\n\n".join(part for part in parts if part is not None) or None
    try:
        if not isinstance(thing, FunctionType):
            return normalised(inspect.getsource(thing))
        # Of what decorators have put around a function each its own: inspect.getsource looks through all of them.
        around = [normalised(inspect.getsource(function.__code__)) for function in _layers(thing)]
        return "\n\n".join(reversed(around))
    except (OSError, TypeError):
        return None  # of C, or made by exec


def _layers(function: FunctionType) -> Iterator[FunctionType]:
    """Yield a function, and the functions that it has been put around."""
    seen: set[int] = set()
    inside: Any = function
    while isinstance(inside, FunctionType) and id(inside) not in seen:
        seen.add(id(inside))
        yield inside
        inside = vars(inside).get("__wrapped__")


def normalised(text: str) -> str:
    """Return source in the form in which it is compared: as this Python's ``ast.unparse`` writes it, no docstrings.

    Two Pythons may write it differently: compare texts that one Python has normalised. What cannot be parsed by
    itself, such as a lambda in the midst of a call, loses only its indentation and empty lines.
    """
    plain = dedent(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an invalid escape in somebody's text; made an error it would be one
            tree = ast.parse(plain)
    except (SyntaxError, ValueError):
        return "\n".join(line.rstrip() for line in plain.splitlines() if line.strip())
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and _has_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _has_docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
