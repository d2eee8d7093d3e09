"""Read the source of a function as a tree, with the lines of its file; or raise the reason why not."""

from __future__ import annotations

import ast
import linecache
import sys
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NotReadable(Exception):
    """The source of a function cannot be had. The text gives the reason."""


@dataclass(frozen=True, slots=True)
class File:
    """A source file.

    Attributes:
        path: the path, absolute.
        lines: the lines of the file.
        functions: the functions of the file, by first line (that of the first decorator) and name.
    """

    path: Path
    lines: tuple[str, ...]
    functions: dict[tuple[int, str], list[Function]]

    def line(self, number: int) -> str:
        """Return a line, from 1, without its indentation."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""


def belongs_to_python(module: str) -> bool:
    """Return True if a module is of the standard library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def belongs_to_torch(module: str | None) -> bool:
    """Return True if a module is of torch itself."""
    return module is not None and (module == "torch" or module.startswith(("torch.", "torch_", "_torch")))


def read(function: FunctionType) -> tuple[File, Function]:
    """Return a function's file and tree.

    Raises:
        NotReadable: there is no file, or the file has changed.
    """
    code = function.__code__
    file = read_file(code.co_filename)
    functions = file.functions.get((code.co_firstlineno, code.co_name), [])
    if len(functions) > 1:
        places = set(code.co_positions())  # several lambdas on one line
        functions = [node for node in functions if _body_of(node) in places] or functions
    if not functions:
        raise NotReadable(f"{Path(code.co_filename).name} has no {code.co_name} at line {code.co_firstlineno}")
    return file, functions[0]


def read_file(name: str) -> File:
    """Return a file and the functions defined in it.

    Raises:
        NotReadable: the file does not exist, or is not Python.
    """
    return _parsed(name, _text(name))


@cache
def _parsed(name: str, text: str) -> File:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NotReadable(
            f"{Path(name).name}:{error.lineno} is no Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}"
        ) from None
    functions: dict[tuple[int, str], list[Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            functions.setdefault((node.lineno, "<lambda>"), []).append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            functions.setdefault((first, node.name), []).append(node)
    return File(Path(name).absolute(), tuple(text.splitlines()), functions)


def _text(name: str) -> str:
    path = Path(name)
    if path.is_file():
        try:
            with tokenize.open(name) as file:
                return file.read()
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise NotReadable(f"{path.name} cannot be read: {error}") from None
    if lines := linecache.getlines(name):  # a notebook's cell
        return "".join(lines)
    raise NotReadable("it was made by exec and has no file" if name.startswith("<") else f"{name} is not there")


def _body_of(node: Function) -> tuple[int | None, ...]:
    body = node.body if isinstance(node, ast.Lambda) else node
    return (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
