"""A change of one source file, and the model with that change: nothing on disk and no class of the program changes."""

from __future__ import annotations

import copy
import difflib
import linecache
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple, final

_numbers: Final = count(1)


class Span(NamedTuple):
    """A piece of the file and its replacement; lines from 1, columns in characters from 0. An insertion is empty."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@final
@dataclass(frozen=True)
class Change:
    """A remedy as a change of source.

    Attributes:
        spans: the replaced pieces of the file.
        annotations: annotations that the class body gets.
        values: attributes that ``__init__`` sets.
    """

    spans: tuple[Span, ...]
    annotations: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def changed(file: str, change: Change) -> str:
    """Return the text of a file after a change."""
    lines = [*linecache.getlines(file), ""]  # an insertion may come after the last line
    for span in sorted(change.spans, reverse=True):
        before, after = lines[span.line - 1][: span.column], lines[span.end_line - 1][span.end_column :]
        lines[span.line - 1 : span.end_line] = [before + span.text + after]
    return "".join(lines)


def diff(file: str, text: str) -> str:
    """Return the unified diff from a file to a text, with two lines of context."""
    new = text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(linecache.getlines(file), new, file, file, n=2)).rstrip("\n")


@contextmanager
def shown(text: str) -> Iterator[str]:
    """Give a text a file name, under which ``inspect`` finds its lines during a block."""
    file = f"<remedy {next(_numbers)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    try:
        yield file
    finally:
        linecache.cache.pop(file, None)


def function_in(text: str, file: str, function: FunctionType) -> FunctionType:
    """Return a function as the text of its file defines it, with its globals, closure and defaults.

    Raises:
        LookupError: the text has no such function, or the function needs another closure.
        SyntaxError: the text is no program.
    """
    candidates = [
        candidate
        for candidate in _codes(compile(text, file, "exec"))
        if candidate.co_qualname == function.__code__.co_qualname
    ]
    if not candidates:
        raise LookupError(function.__qualname__)
    code = min(candidates, key=lambda candidate: abs(candidate.co_firstlineno - function.__code__.co_firstlineno))
    cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    new_function = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new_function.__kwdefaults__, new_function.__qualname__, new_function.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    return new_function


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _codes(const)


def with_class(model: Any, path: str, members: Mapping[str, Any], change: Change) -> Any:
    """Return a copy of a model in which one module is of a subclass with other members; the parameters are shared.

    Args:
        model: the model.
        path: the path of the module, empty for the model.
        members: functions of the subclass, by name.
        change: annotations and values for the module.
    """
    model_copy = copied(model)
    module = model_copy.get_submodule(path)
    cls = type(module)
    annotations = {**getattr(cls, "__annotations__", {}), **change.annotations}
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    module.__class__ = type(cls.__name__, (cls,), {**names, "__annotations__": annotations, **members})
    for name, value in change.values.items():
        setattr(module, name, value)
    return model_copy


def copied(model: Any) -> Any:
    """Return a deep copy of a model that shares the parameters."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
