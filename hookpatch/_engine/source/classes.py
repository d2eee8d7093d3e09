"""Find the source of a class, and refuse source that differs from the running code."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from inspect import getsourcefile
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot, innermost
from hookpatch._engine.slots.guard import getter_of
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._engine.source.bodies import Definition
from hookpatch._engine.source.compiled import classes_in, codes_in, compiled_statement, first_line, parsed
from hookpatch._engine.source.pieces import UnfitEdit


class ClassSource(NamedTuple):
    """The source of a class: text, name and tree of the file, top-level statement, node, and code of the body."""

    text: str
    file: str
    tree: ast.Module
    top: int
    node: ast.ClassDef
    code: CodeType


def source_of(cls: type) -> ClassSource:
    """Return the source of a class; raise UnfitEdit if the source is unreadable or has other functions."""
    head = f"{cls.__qualname__}."
    functions = [function for function in functions_of_class(cls) if code_of(function).co_qualname.startswith(head)]
    try:
        file = getsourcefile(cls)
    except (TypeError, OSError) as error:
        if is_interrupt(error):
            raise
        file = next((code_of(function).co_filename for function in functions), None)
    text = "".join(linecache.getlines(file, globals_of(cls, functions))) if file else ""
    if not file or not text:
        raise UnfitEdit(f"the source of {describe(cls)} cannot be read; a class written in C has none")
    tree = parsed(text, file)
    files = (file, f"<{file.strip('<>')}, edited by ")  # the second: a module that runs from changed source
    codes = [code for code in map(code_of, functions) if code.co_filename.startswith(files)]
    sources, is_there = [], False
    for top, statement in enumerate(tree.body):
        nodes = [(name, node) for name, node in classes_in(ast.Module([statement], [])) if name == cls.__qualname__]
        for _, node in nodes:
            is_there = True
            code = body_of(compiled_statement(tree, top, file), node, cls.__qualname__)
            if all(any(running == compiled for _, compiled in codes_in(code)) for running in codes):
                sources.append(ClassSource(text, file, tree, top, node, code))
    if not is_there:
        raise UnfitEdit(f"{file} has no class {cls.__qualname__}: it is written in C, or was made by a call")
    if not sources:
        problem = f"the source of {cls.__qualname__} is not what runs"
        raise UnfitEdit(f"{problem}: {file} has changed since, or other code rewrote the source at the import")
    if len(sources) > 1:
        lines = ", ".join(str(source.node.lineno) for source in sources)
        raise UnfitEdit(f"{file} has several classes {cls.__qualname__} that may be meant (line {lines})")
    return sources[0]


def path_of(cls: type) -> str:
    """Return the qualified name of a class without the enclosing function."""
    return cls.__qualname__.rpartition("<locals>.")[2]


def body_of(code: CodeType, node: ast.ClassDef, name: str) -> CodeType:
    """Return the code of the body of a class."""
    return next(
        inner
        for _, inner in codes_in(code)
        if inner.co_name == node.name and inner.co_qualname == name and inner.co_firstlineno == first_line(node)
    )


def functions_of_class(cls: type) -> Iterator[FunctionType]:
    """Yield the Python functions of a class without patches, also functions inside descriptors and decorators."""
    # Since Python 3.15 a dataclass computes __doc__ at the first read.
    for name in [name for name in vars(cls) if name != "__doc__"]:
        function = _function(own_beneath(AttributeSlot(cls, name)))
        if function is not None:
            yield function


def _function(value: Any) -> FunctionType | None:
    function = innermost(getter_of(value) or inner(value)) if value is not ABSENT else None
    return function if type(function) is FunctionType else None


def runs(cls: type, name: str, definition: Definition, code: CodeType) -> bool:
    """Return True if the class's function of a name runs the code of a definition in the body's code."""
    function = _function(own_beneath(AttributeSlot(cls, name)))
    running = None if function is None else code_of(function)
    line = first_line(definition)
    return any(compiled == running and compiled.co_firstlineno == line for _, compiled in codes_in(code))


def code_of(function: FunctionType) -> CodeType:
    """Return the code of a function without patches."""
    code: CodeType = own_beneath(FunctionSlot(function, binds=False))
    return code


def globals_of(cls: type, functions: list[FunctionType]) -> dict[str, Any]:
    module = imports.module_named(cls.__module__)
    return functions[0].__globals__ if functions else {} if module is None else vars(module)
