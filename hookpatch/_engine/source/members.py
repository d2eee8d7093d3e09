"""Find the changes that an edit makes in a class: edited functions, and attributes with new values.

Only the statements of the class body with changed values are executed.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import warnings
from abc import ABCMeta
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple, final
from weakref import finalize

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import raised, text_of
from hookpatch._engine.patch.target import Attribute, Step, Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.slot import ABSENT, mro
from hookpatch._engine.source.bodies import bound_by, differing, functions_of, to_run_anew
from hookpatch._engine.source.classes import body_of, code_of, functions_of_class, globals_of, path_of, runs, source_of
from hookpatch._engine.source.compiled import classes_in, codes_in, compiled_statement, first_line, parsed
from hookpatch._engine.source.pieces import Source, UnfitEdit, lines_of, replaced
from hookpatch.errors import EditError

_numbers: Final = itertools.count(1)
_OF_PYTHON: Final = ("__slots__", "__qualname__", "__module__", "__annotations__", "__dict__", "__weakref__")
_METHOD_KINDS: Final = {"__new__": staticmethod, "__init_subclass__": classmethod, "__class_getitem__": classmethod}


class Members(NamedTuple):
    """The parts of an edited class.

    Attributes:
        patches: a patch of each part.
        doubts: in words, the code that has used the unedited class.
    """

    patches: tuple[Patch, ...]
    doubts: tuple[str, ...]


def members(cls: type, patch: Patch, owner: str) -> Members:
    """Return a patch of each function and attribute of a class that an edit of the class changes.

    Raises:
        EditError: the source cannot be read, differs from the running code, lacks the piece, or cannot be edited.
    """
    assert patch.target is not None  # the caller has the slot
    try:
        if patch.is_narrowed:
            raise UnfitEdit("only_in= and except_in= are for one function, and the target is a class")
        text, file, tree, top, node, code = source_of(cls)
        new_text = replaced(Source(text, tree, node.lineno, node.end_lineno or 0), patch.change)
        shown = f"<{file.strip('<>')}, edited by {owner}, {next(_numbers)}>"
        new_tree = parsed(new_text, shown)
        candidates = [
            candidate for name, candidate in classes_in(new_tree) if name.rpartition("<locals>.")[2] == path_of(cls)
        ]
        matches = [candidate for candidate in candidates if first_line(candidate) == first_line(node)]
        if not matches:
            raise UnfitEdit(f"the edit leaves another class there; the name of {cls.__qualname__} stays")
        edited = _Edited(patch, owner, cls.__qualname__, new_text, shown, new_tree, top)
        edited.compare(cls, node, matches[0], code, patch.target.steps)
        if not edited.patches:
            raise UnfitEdit("the edit changes no code that runs")
        return Members(tuple(edited.patches), tuple(dict.fromkeys(edited.doubts)))
    except UnfitEdit as problem:
        raise EditError(patch.address, owner, str(problem)) from None


@final
@dataclass
class _Edited:
    """The edited source of a class, with the patches found so far."""

    patch: Patch
    owner: str
    within: str
    text: str
    file: str
    tree: ast.Module
    top: int
    patches: list[Patch] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def compare(self, cls: type, old: ast.ClassDef, new: ast.ClassDef, code: CodeType, steps: tuple[Step, ...]) -> None:
        """Add the patches of a class and of the inner classes; ``code``: the code of the body before the edit."""
        difference = differing(old, new)
        in_place, names = [], set()
        for node in difference.removed:
            names |= bound_by(node, old)
        for name, definition in difference.functions:
            if runs(cls, name, definition, code):
                in_place.append(name)
            else:
                names.add(name)  # hidden inside a decorator: the function is defined anew
        stays = {name for name, definition in functions_of(old) if runs(cls, name, definition, code)}
        stays &= {name for name, _ in functions_of(new)}
        anew, with_new_defaults = (
            to_run_anew(new, names, difference.added, stays) if names or difference.added else ([], [])
        )
        values = self._attributes(cls, new, anew, names, steps) if anew or names else {}
        for name in dict.fromkeys([*in_place, *with_new_defaults]):
            if name not in names:
                change = replace(
                    self.patch.change, within=self.within, values=values if name in with_new_defaults else None
                )
                self._add(steps, name, "edit", change, self.patch.reach)
                if name == "__init_subclass__" and cls.__subclasses__():
                    self.doubts.append(f"the subclasses of {cls.__qualname__} were made before")
        for name, before, after in difference.classes:
            inner_class = own_beneath(AttributeSlot(cls, name))
            qualified = f"{cls.__qualname__}.{before.name}"
            if name in names:
                continue  # made anew
            if not isinstance(inner_class, type) or inner_class.__qualname__ != qualified:
                raise UnfitEdit(f"{qualified} is not the class that the source defines")
            self.compare(inner_class, before, after, body_of(code, before, qualified), (*steps, Attribute(name)))

    def _add(self, steps: tuple[Step, ...], name: str, verb: Any, change: Any, reach: Any = "slot") -> None:
        of = self.patch.target
        assert of is not None  # the caller has the slot
        target = Target.of_steps(of.module, of.start, (*steps, Attribute(name)))
        part = self.patch.of_match(target, change)
        calls = part.required_calls if callable(change) or verb == "edit" else 0
        own: dict[str, Any] = {"verb": verb, "reach": reach, "add": verb == "replace", "required_calls": calls}
        self.patches.append(replace(part, **own, required=True))

    def _attributes(
        self, cls: type, new: ast.ClassDef, statements: list[ast.stmt], names: set[str], steps: tuple[Step, ...]
    ) -> dict[str, Any]:
        """Add a patch of each attribute with a changed value; return the new values by name."""
        self._check(cls, new, statements, names)
        values = self._values(cls, new, statements, names) if statements else {}
        if "__eq__" in values and "__hash__" not in values and "__hash__" not in vars(cls):
            values["__hash__"] = None  # as a class statement does
        for name in sorted({*names, *values}):
            own = own_beneath(AttributeSlot(cls, name))
            value = values.get(name, ABSENT)
            if getattr(value, "__isabstractmethod__", False) or getattr(own, "__isabstractmethod__", False):
                raise UnfitEdit(f"'{name}' is abstract, which counted when {cls.__qualname__} was made")
            if value is not ABSENT:
                self._add(steps, name, "replace", value)
            elif own is not ABSENT:
                self._add(steps, name, "remove", None)
        bases = [base for base in mro(cls)[1:-1] if "__init_subclass__" in vars(base)]
        if bases:
            self.doubts.append(f"__init_subclass__ of {describe(bases[0])} ran before")
        if new.decorator_list:
            self.doubts.append(f"the decorators of {cls.__qualname__} ran before")
        return values

    def _check(self, cls: type, new: ast.ClassDef, statements: list[ast.stmt], names: set[str]) -> None:
        """Raise UnfitEdit for attributes that Python or a library used while making the class."""
        remedy = f"edit the module {cls.__module__} before it runs"
        kind = type(cls)
        if kind not in (type, ABCMeta):
            problem = f"an attribute of {cls.__qualname__}, which its metaclass {describe(kind)} made of the body"
            raise UnfitEdit(f"the edit changes {problem}; {remedy}")
        if fixed := sorted(names.intersection(_OF_PYTHON)):
            raise UnfitEdit(f"the edit changes {fixed[0]}, which counted when {cls.__qualname__} was made; {remedy}")
        is_made_of_fields = any(name in vars(cls) for name in ("__dataclass_fields__", "__attrs_attrs__", "_fields"))
        for node in statements:
            if isinstance(node, ast.AnnAssign) and is_made_of_fields:
                problem = f"a field of {cls.__qualname__}, of which its __init__ and others were made"
                raise UnfitEdit(f"the edit changes {problem}; {remedy}")
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
                problem = f"would run '{ast.unparse(node)}' of {cls.__qualname__} again"
                raise UnfitEdit(f"the edit {problem}, and the end could not take that back; {remedy}")

    def _values(self, cls: type, new: ast.ClassDef, statements: list[ast.stmt], names: set[str]) -> dict[str, Any]:
        """Run statements of the body of a class; return the new values by name."""
        functions = [*functions_of_class(cls)]
        body, new.body = new.body, [_without_annotation(node) for node in statements]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python has warned of the file at the import
                code = body_of(compiled_statement(self.tree, self.top, self.file), new, cls.__qualname__)
        finally:
            new.body = body
        cells = {
            name: cell
            for function in functions
            for name, cell in zip(code_of(function).co_freevars, function.__closure__ or (), strict=False)
        }
        if missing := next((name for name in code.co_freevars if name not in cells), None):
            raise UnfitEdit(
                f"the edit uses '{missing}' of an enclosing function; the functions of the class do not use the name"
            )
        self._show(code)
        scope = {name: value for name, value in vars(cls).items() if name not in names}
        before = dict(scope)
        try:
            exec(
                code, globals_of(cls, functions), scope, closure=tuple(cells[name] for name in code.co_freevars) or None
            )
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"the changed lines of {cls.__qualname__} {raised(error)}{text_of(error)}"
            raise UnfitEdit(f"{problem}; they run with what the class and its module have now") from None
        cell = scope.pop("__classcell__", None)
        if isinstance(cell, CellType):
            cell.cell_contents = cls
        values = {}
        for name in [*scope]:
            value = scope[name]
            is_of_python = name in _OF_PYTHON or name in _MADE
            if is_of_python or (name not in names and name in before and before[name] is value):
                continue
            wanted = _METHOD_KINDS.get(name)
            values[name] = wanted(value) if wanted is not None and type(value) is FunctionType else value
            if hasattr(type(value), "__set_name__"):
                value.__set_name__(cls, name)
        return values

    def _show(self, code: CodeType) -> None:
        """Show the edited source to tracebacks and inspect, as long as a function of the source lives."""
        codes = [nested for _, nested in codes_in(code)]
        living, file = {id(nested) for nested in codes}, self.file
        if codes:
            linecache.cache[file] = len(self.text), None, lines_of(self.text), file

        def forget(key: int) -> None:
            living.discard(key)
            if not living:
                linecache.cache.pop(file, None)

        for nested in codes:
            finalize(nested, forget, id(nested))


_MADE: Final = (
    *("__firstlineno__", "__static_attributes__", "__classdictcell__", "__annotate__", "__annotate_func__"),
    *("__annotations_cache__", "__conditional_annotations__"),
)


def _without_annotation(node: ast.stmt) -> ast.stmt:
    """Return an assignment without the annotation: the class has the annotation already."""
    if not isinstance(node, ast.AnnAssign):
        return node
    value = node.value
    plain = ast.Pass() if value is None else ast.Assign([node.target], value)
    return ast.copy_location(plain, node)
