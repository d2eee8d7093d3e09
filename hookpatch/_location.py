"""Where things are defined: a file and a line; and what a module's own source says of a name."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._slot import KEPT, along_mro, inner
from hookpatch._target import describe

Kind: TypeAlias = Literal["def", "class", "import", "assignment"]


@final
@dataclass(frozen=True, slots=True)
class Binding:
    """A statement in a module's source that binds a name. Frozen.

    Attributes:
        kind: what it is.
        line: its line; of what is decorated that of the first decorator, as Python counts it.
        text: the line's text.
        decorators: how many decorators it has.
    """

    kind: Kind
    line: int
    text: str
    decorators: int = 0


def location(thing: Any) -> str | None:
    """Return ``file:line`` of a function, class, method, property or partial; None for what tells none."""
    thing = inner(thing)
    kind = type(thing)
    if issubclass(kind, MethodType):
        return location(thing.__func__)
    if issubclass(kind, partial):
        return location(thing.func)
    if issubclass(kind, property):
        return location(thing.fget)
    if issubclass(kind, FunctionType):
        return f"{thing.__code__.co_filename}:{thing.__code__.co_firstlineno}"
    if issubclass(kind, type):
        return _of_class(thing)
    call = along_mro(kind, "__call__")  # an object that can be called: where that is defined
    return location(call) if type(call) is FunctionType else None


def _of_class(kind: type) -> str | None:
    module = _imports.loaded(kind.__module__) if isinstance(kind.__module__, str) else None
    found = [one for one in bindings(module, kind.__qualname__.split(".")) or () if one.kind == "class"]
    return f"{file_of(module)}:{found[-1].line}" if found else None


def file_of(module: ModuleType | None) -> str | None:
    """Return the source file of a module, None if it has none."""
    file = vars(module).get("__file__") if module is not None else None
    return file if isinstance(file, str) and file.endswith((".py", ".pyw")) else None


def bindings(module: ModuleType | None, path: Sequence[str]) -> list[Binding] | None:
    """Return what in a module's source binds a name, or a name in a class of it; None where there is no source.

    Args:
        module: the module.
        path: the name, after those of the classes in which it lies.
    """
    file = file_of(module)
    if file is None or module is None or "<locals>" in path:
        return None
    lines = linecache.getlines(file, vars(module))
    try:
        bodies: list[list[ast.stmt]] = [_parsed("".join(lines)).body]
    except SyntaxError:
        return None
    for name in path[:-1]:
        statements = [statement for body in bodies for statement in _statements(body)]
        bodies = [one.body for one in statements if isinstance(one, ast.ClassDef) and one.name == name]
    found = [_binding(one, path[-1]) for body in bodies for one in _statements(body)]
    return [
        Binding(kind, line, lines[line - 1].strip() if line <= len(lines) else "", decorators)
        for kind, line, decorators in filter(None, found)
    ]


@lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    if not text:
        raise SyntaxError("there is none")
    return ast.parse(text)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those in the branches of conditions, loops and the like too; not those in functions."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for branch in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, branch, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from _statements(handler.body)


def _binding(statement: ast.stmt, name: str) -> tuple[Kind, int, int] | None:
    """Return the kind, line and number of decorators of a statement that binds a name."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if statement.name == name:
            decorators = statement.decorator_list
            line = min([statement.lineno, *(one.lineno for one in decorators)])
            return "class" if isinstance(statement, ast.ClassDef) else "def", line, len(decorators)
        case ast.Import() | ast.ImportFrom():
            if any((one.asname or one.name.partition(".")[0]) in (name, "*") for one in statement.names):
                return "import", statement.lineno, 0
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
            if name in names:
                return "assignment", statement.lineno, 0
    return None


_ROOM: Final = 60
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None))


def in_words(value: Any, depth: int = 2) -> str:
    """Return a short text for a value, without running code of its: plain ones as they are, others by their kind."""
    kind = type(value)
    if kind in _PLAIN:
        text = repr(value)
        return text if len(text) <= _ROOM else f"{text[: _ROOM - 1]}…"
    if kind in (list, tuple, set, frozenset, dict) and depth:
        marks = "[]" if kind is list else "()" if kind is tuple else "{}"
        few = list(value.items() if kind is dict else value)[:5]
        words = [
            f"{in_words(one[0], 0)}: {in_words(one[1], depth - 1)}" if kind is dict else in_words(one, depth - 1)
            for one in few
        ]
        more = ["…"] if len(value) > len(few) else []
        return f"{marks[0]}{', '.join([*words, *more])}{marks[1]}"
    return described(value)


def described(thing: Any) -> str:
    """Return how a report names a thing: by its address where it has one, else by its kind. Runs nothing of its."""
    thing = inner(thing)
    kind = type(thing)
    if issubclass(kind, MethodType):
        return described(thing.__func__)
    if issubclass(kind, property) and type(thing.fget) is FunctionType:
        return describe(thing.fget)
    if issubclass(kind, (type, FunctionType, ModuleType)):
        return describe(thing)
    if isinstance(along_mro(kind, "__wrapped__"), KEPT):
        return described(AttributeSlot(thing, "__wrapped__").read())
    if isinstance(along_mro(kind, "__qualname__"), KEPT) and isinstance(along_mro(kind, "__self__"), KEPT):
        home = getattr(thing, "__module__", None) or type(thing.__self__).__module__  # a function of C
        return f"{home}:{thing.__qualname__}"
    if isinstance(along_mro(kind, "__objclass__"), KEPT):
        return f"{thing.__objclass__.__module__}:{thing.__objclass__.__qualname__}.{thing.__name__}"
    article = "an" if kind.__name__[:1].lower() in "aeiou" else "a"
    return f"{article} {kind.__module__}:{kind.__qualname__}" if kind.__module__ != "builtins" else describe(thing)
