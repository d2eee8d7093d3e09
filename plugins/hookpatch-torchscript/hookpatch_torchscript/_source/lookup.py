"""Find lines of source: a class, a function, the line that assigns an attribute or uses a value."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from textwrap import dedent
from typing import Any

from hookpatch_torchscript._values.place import Place


def line_at(file: str, line: int) -> Place:
    """Return a place with the text of the line."""
    return Place(file, line, linecache.getline(file, line).strip())


def place_of(target: Any) -> Place | None:
    """Return the definition of a class or function; None without readable source (a prompt, code without a file)."""
    if isinstance(target, type):
        file = _file_of(target)
        line = _classes(file).get(target.__qualname__.replace("<locals>.", "")) if file else None
        return line_at(file, line) if file and line else None
    function = plain(target)
    code = getattr(function, "__code__", None)
    if code is None or not linecache.getlines(code.co_filename):
        return None
    tree, start = tree_of(function)
    line = code.co_firstlineno if tree is None else start + tree.lineno - 1  # past the decorators
    return line_at(code.co_filename, line)


def plain(target: Any) -> Any:
    """Return the Python function inside a bound method, a property, or a wrapper with ``__wrapped__``."""
    if isinstance(target, property):
        target = target.fget
    return inspect.unwrap(getattr(target, "__func__", target))


def name_of(function: Any) -> str:
    """Return ``Class.method``, without enclosing functions."""
    name: str = getattr(plain(function), "__qualname__", None) or type(function).__qualname__
    return name.rpartition("<locals>.")[2]


def assignment(cls: type, attribute: str) -> Place | None:
    """Return the line that assigns an instance attribute: in ``__init__``, else in another method."""
    for base in cls.__mro__:
        functions = [value for value in vars(base).values() if inspect.isfunction(value)]
        for function in sorted(functions, key=lambda function: function.__name__ != "__init__"):
            if (place := where_in(function, lambda node: _assigns(node, attribute))) is not None:
                return place
    return None


def use_of_method(function: Any, name: str) -> Place | None:
    """Return the first line of a function with ``.name``."""
    return where_in(function, lambda node: isinstance(node, ast.Attribute) and node.attr == name)


def use_of(function: Any, value: object) -> tuple[Place, str] | None:
    """Return the first line of a function that names a value, with the name (``numpy.sqrt``), or None."""
    tree, start = tree_of(function)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name | ast.Attribute) and _value(node, plain(function)) is value:
            return line_at(plain(function).__code__.co_filename, start + node.lineno - 1), ast.unparse(node)
    return None


def where_in(function: Any, is_it: Callable[[ast.AST], bool]) -> Place | None:
    """Return the first line of a function with a syntax node for which ``is_it`` returns True."""
    tree, start = tree_of(function)
    if tree is None:
        return None
    lines = [node.lineno for node in ast.walk(tree) if is_it(node) and hasattr(node, "lineno")]
    return line_at(plain(function).__code__.co_filename, start + min(lines) - 1) if lines else None


def annotations_in(function: Any) -> dict[str, str]:
    """Return the text of each parameter's annotation, empty without annotation."""
    tree, _ = tree_of(function)
    if tree is None:
        return {}
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    return {argument.arg: ast.unparse(argument.annotation) if argument.annotation else "" for argument in arguments}


def tree_of(function: Any) -> tuple[ast.FunctionDef | None, int]:
    """Return the syntax tree of a function, and the line where the function's text begins in the file."""
    try:
        lines, start = inspect.getsourcelines(plain(function))
        (definition,) = ast.parse(dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None, 0
    return (definition, start) if isinstance(definition, ast.FunctionDef) else (None, 0)


def _assigns(node: ast.AST, attribute: str) -> bool:
    if isinstance(node, ast.Call):  # self.register_buffer("mask", None), setattr(self, "mask", None)
        names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        return attribute in names and isinstance(node.func, ast.Attribute | ast.Name)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    each = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return any(isinstance(part, ast.Attribute) and part.attr == attribute for part in each)


def _value(node: ast.expr, function: Any) -> object:
    """Return the value of a dotted name in a function, by enclosing, global and built-in names."""
    if isinstance(node, ast.Name):
        free = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        try:
            if node.id in free:
                return free[node.id].cell_contents
        except ValueError:  # not assigned yet
            return None
        return function.__globals__.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute) and inspect.ismodule(owner := _value(node.value, function)):
        return vars(owner).get(node.attr)  # vars: an attribute access would load a lazy module
    return None


def _file_of(cls: type) -> str | None:
    try:
        return inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return None


@lru_cache(maxsize=256)
def _classes(file: str) -> dict[str, int]:
    """Return the line of each class in a file by qualified name; cached, since ``inspect`` parses per class."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    return dict(_nested(tree, ""))


def _nested(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        name = f"{prefix}{child.name}" if named else prefix  # type: ignore[attr-defined]  # said by named
        if isinstance(child, ast.ClassDef):
            yield name, child.lineno
        yield from _nested(child, f"{name}." if named else prefix)
