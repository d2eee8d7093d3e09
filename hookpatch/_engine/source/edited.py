"""Compile a function anew from edited source. The rest of the function is unchanged.

The whole top-level statement of the file is compiled, and not executed. Line numbers, private names, cells, nested
functions and ``super()`` without arguments therefore come out as in the file.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple, final
from weakref import finalize

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.trampoline import is_changed_in_place, is_trampoline, recompiled
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.edit import Edit
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import raised, text_of
from hookpatch._engine.source.bodies import names_read
from hookpatch._engine.source.compiled import (
    Definition,
    Way,
    annotations_of,
    classes_in,
    codes_in,
    compiled_statement,
    doc_of,
    first_line,
    marked_like,
    parsed,
    without_doc,
)
from hookpatch._engine.source.inside import remedy
from hookpatch._engine.source.pieces import Source, UnfitEdit, lines_of, replaced
from hookpatch.errors import ConflictError, EditError

_EDITED: Final = ", edited by "
_numbers: Final = itertools.count(1)


class _Below(NamedTuple):
    """The source and code of a function before an edit, and the owner of the edit."""

    owner: str
    text: str
    file: str
    code: CodeType


_below: Final[dict[str, _Below]] = {}  # by the name of the file that shows the edited source


def edited(value: Any, patch: Patch, owner: str, in_class: type | None) -> Any:
    """Return the value for a slot with the function's source edited: a function, or a descriptor of a function.

    Args:
        value: a Python function, or a static method, class method or property of a Python function.
        patch: the patch, whose change is an Edit.
        owner: the plugin or the block, in words for messages.
        in_class: the class that has the value, or None.

    Raises:
        EditError: the source cannot be read, differs from the running code, lacks the piece, or cannot be edited.
        ConflictError: another patch has edited the same piece.
    """
    kind = type(value)
    if kind in (staticmethod, classmethod):
        return kind(edited(value.__func__, patch, owner, in_class))
    if kind is property and type(value.fget) is FunctionType:
        return value.getter(edited(value.fget, patch, owner, in_class))
    try:
        if hasattr(value.fget if kind is property else value, "__wrapped__"):
            is_inherited = patch.reach == "everywhere"  # else the function inside is edited
            way = (
                "edit it in the class that defines it"
                if is_inherited
                else "reach='everywhere' edits the function there"
            )
            raise UnfitEdit(f"the function is inside a decorator; {way}")
        if kind is not FunctionType:
            raise UnfitEdit(f"the target is {a_kind(value)}, which has no Python source")
        return _edited(value, patch, owner, in_class)
    except UnfitEdit as problem:
        raise EditError(patch.address, owner, f"{problem}{remedy(str(problem), value, patch, in_class)}") from None


def _edited(function: FunctionType, patch: Patch, owner: str, in_class: type | None) -> FunctionType:
    if is_changed_in_place(function):
        raise UnfitEdit("another patch has changed the function in place; use reach='everywhere' here, too")
    if is_trampoline(function):
        raise UnfitEdit("another patch wraps the function and is declared to lie inside; an edit always lies innermost")
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    edited_code = _compiled(text, code.co_filename, code, patch, owner)
    result = recompiled(
        function,
        edited_code.code,
        _cells(edited_code.code, function, in_class),
        *_defaults(edited_code, function, patch.change.values),
    )
    if doc_of(edited_code.before) != doc_of(edited_code.after):
        if patch.reach == "everywhere" and without_doc(edited_code.before) == without_doc(edited_code.after):
            raise UnfitEdit("the edit changes the documentation alone, which needs reach='slot'")
        result.__doc__ = doc_of(edited_code.after)
    return result


class _EditedCode(NamedTuple):
    """The code of an edited function, and the definitions before and after the edit."""

    code: CodeType
    before: Definition
    after: Definition


def _compiled(text: str, file: str, code: CodeType, patch: Patch, owner: str) -> _EditedCode:
    """Return the compiled edit of a function; raises like ``edited``."""
    try:
        return _compile_once(text, file, code, patch.change, owner)
    except UnfitEdit:
        below = _below.get(file)
        while below is not None:
            with suppress(UnfitEdit):
                _replaced(_Source.of(below.text, below.file, below.code), patch.change)
                problem = f"{below.owner} edits the same lines; select only one of the two edits"
                raise ConflictError(patch.address, owner, problem) from None
            below = _below.get(below.file)
        raise


@lru_cache(maxsize=64)  # a block may be entered often, and reading a file of 6,000 lines takes 0.3 s
def _compile_once(text: str, file: str, code: CodeType, edit: Edit, owner: str) -> _EditedCode:
    # In angle brackets: the sign for coverage and other tools that no file has this name.
    shown = f"<{file.strip('<>').partition(_EDITED)[0]}{_EDITED}{owner}, {next(_numbers)}>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python has warned of the file (of an escape, say) at the import
        old = _Source.of(text, file, code)
        new_text = _replaced(old, edit)
        new = _Source.edited(new_text, shown, old)
        if ast.dump(old.definition) == ast.dump(new.definition) and edit.values is None:
            raise UnfitEdit("the edit changes no code that runs")
    linecache.cache[shown] = len(new_text), None, lines_of(new_text), shown
    _below[shown] = _Below(owner, text, file, code)
    finalize(new.code, linecache.cache.pop, shown, None)
    finalize(new.code, _below.pop, shown, None)
    return _EditedCode(new.code, old.definition, new.definition)


def _replaced(old: _Source, edit: Edit) -> str:
    first, last = old.definition.lineno, old.definition.end_lineno or 0
    for name, node in classes_in(old.tree) if edit.within else ():
        if name == edit.within and node.lineno <= first and last <= (node.end_lineno or 0):
            first, last = node.lineno, node.end_lineno or 0
    return replaced(Source(old.text, old.tree, first, last), edit)


@final
@dataclass(frozen=True)
class _Source:
    """The source of a function, compiled.

    Attributes:
        text, tree: the file.
        definition: the function in the tree.
        code: the function's code.
        way: the place of the code: for each level of nesting, a name and the number among codes of the same name.
        top: the place of the top-level statement in the file.
    """

    text: str
    tree: ast.Module
    definition: Definition
    code: CodeType
    way: Way
    top: int

    @classmethod
    def of(cls, text: str, file: str, code: CodeType) -> _Source:
        """Return the source of a function; raise UnfitEdit if the source is missing or other code runs."""
        name = code.co_qualname
        if not text:
            raise UnfitEdit(f"the source of {name} cannot be read ({file})")
        tree = parsed(text, file)
        line = code.co_firstlineno
        for top, statement in enumerate(tree.body):
            if not first_line(statement) <= line <= (statement.end_lineno or 0):
                continue
            definitions = [node for node in _definitions(statement) if first_line(node) == line]
            definitions = [node for node in definitions if _name(node) == code.co_name]
            ways = [
                way for way, like in codes_in(compiled_statement(tree, top, file)) if marked_like(like, code) == code
            ]
            if len(definitions) > 1:
                raise UnfitEdit(f"line {line} of {file} has several functions of one name; write each on its own line")
            if definitions and ways:
                return cls(text, tree, definitions[0], code, ways[0], top)
        problem = f"the source of {name} is not what runs"
        raise UnfitEdit(f"{problem}: {file} has changed since, or other code rewrote the source at the import")

    @classmethod
    def edited(cls, text: str, file: str, old: _Source) -> _Source:
        """Return the edited source; raise UnfitEdit if the source cannot be compiled, or is another function."""
        tree = parsed(text, file)
        code = next((code for way, code in codes_in(compiled_statement(tree, old.top, file)) if way == old.way), None)
        line = 0 if code is None else code.co_firstlineno
        definitions = [node for node in _definitions(tree.body[old.top]) if first_line(node) == line]
        unchanged = [node for node in definitions if _head(node) == _head(old.definition)]
        if code is None or not unchanged or code.co_name != _name(old.definition):
            raise UnfitEdit("the edit must keep the name and the decorators of the function")
        return cls(text, tree, unchanged[0], marked_like(code, old.code), old.way, old.top)


def _definitions(statement: ast.stmt) -> list[Definition]:
    return [node for node in ast.walk(statement) if isinstance(node, Definition)]


def _name(node: Definition) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _head(node: Definition) -> tuple[str, ...]:
    return _name(node), *map(ast.dump, getattr(node, "decorator_list", ()))


def _cells(code: CodeType, function: FunctionType, in_class: type | None) -> tuple[CellType, ...]:
    """Return the cells of a function for the new code."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    owner = _class_of(function) or in_class
    if owner is not None and "__class__" not in cells:
        cells["__class__"] = CellType(owner)
    if missing := [name for name in code.co_freevars if name not in cells]:
        problem = f"the edit uses '{missing[0]}' of an enclosing function"
        raise UnfitEdit(f"{problem}; the function itself does not use the name, and has no cell for the variable")
    return tuple(cells[name] for name in code.co_freevars)


def _class_of(function: FunctionType) -> type | None:
    """Return the class that defines a function, by the function's qualified name."""
    owner: type | None = None
    names: Mapping[str, Any] = function.__globals__
    for name in function.__qualname__.split(".")[:-1]:
        inside = names.get(name)
        if not isinstance(inside, type):
            return None
        owner, names = inside, vars(inside)
    return owner


def _defaults(edited_code: _EditedCode, function: FunctionType, values: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return the defaults by place and by keyword: of the function, and of the edit for changed parameters.

    ``values``: the new values of the class, for defaults that read a name of the class.
    """
    before, after = edited_code.before.args, edited_code.after.args
    if annotations_of(edited_code.before) != annotations_of(edited_code.after):
        raise UnfitEdit("the edit changes an annotation, which ran with the module; leave annotations unchanged")
    had = {**_by_place(before, function.__defaults__ or ()), **_by_keyword(before, function.__kwdefaults__ or {})}
    owner = _class_of(function)

    def value(name: str, node: ast.expr) -> Any:
        text, default = had.get(name, ("", None))
        if text == ast.dump(node) and not (values and names_read(node) & values.keys()):
            return default
        try:
            code = compile(ast.Expression(node), edited_code.code.co_filename, "eval")
            return eval(code, function.__globals__, None if owner is None else {**vars(owner), **(values or {})})
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"the default of '{name}' {raised(error)}{text_of(error)}"
            raise UnfitEdit(f"{problem}; it is evaluated with the names of the module and the class") from None

    names = [argument.arg for argument in (*after.posonlyargs, *after.args)]
    by_place = [value(name, node) for name, node in zip(names[::-1], after.defaults[::-1], strict=False)][::-1]
    pairs = zip(after.kwonlyargs, after.kw_defaults, strict=True)
    by_keyword = {argument.arg: value(argument.arg, node) for argument, node in pairs if node is not None}
    return tuple(by_place) or None, by_keyword or None


def _by_place(arguments: ast.arguments, values: tuple[Any, ...]) -> dict[str, tuple[str, Any]]:
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaults = zip(names[::-1], arguments.defaults[::-1], values[::-1], strict=False)
    return {name: (ast.dump(node), value) for name, node, value in defaults}


def _by_keyword(arguments: ast.arguments, values: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        argument.arg: (ast.dump(node), values[argument.arg])
        for argument, node in pairs
        if node and argument.arg in values
    }
