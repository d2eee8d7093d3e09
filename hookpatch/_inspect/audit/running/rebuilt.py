"""Rebuild the former values of modules in a process without notes: from the values' provenance, and from the source.

A value that a module's own file defines is the module's own. Any other value is foreign, and the module's source is
read. If no statement that binds the name can have left the foreign value, other code has set the value later. No
foreign value can come from a definition, a constant, or a copy of a value that is not foreign. Nor from a decorator in
which the author has no part, or an import that ran before the author's package was imported. A name bound by any other
statement is never reported. ``twins.py`` has the rules for the standard library's own values.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Collection, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, inner, is_class_of_program, mro
from hookpatch._inspect.audit.kinds import OF_PYTHON, bare_name, is_code, is_logger, is_object
from hookpatch._inspect.audit.origin import PYTHON, Origin, is_foreign, of_module, origin_of
from hookpatch._inspect.audit.running.definitions import Definitions, is_of_others, read_definitions
from hookpatch._inspect.audit.running.order import ImportOrder
from hookpatch._inspect.audit.running.stand_ins import code, definition
from hookpatch._inspect.audit.running.statements import Statements
from hookpatch._inspect.audit.running.twins import Twins, note_in_packages
from hookpatch._inspect.audit.snapshot import (
    CodeChange,
    OwnerNote,
    Snapshot,
    Unknown,
    module_of_class,
    names_of_class,
    names_of_module,
    submodule_of,
)
from hookpatch._inspect.slot.foreign import wrapping

_NEVER_REPORTED: Final = (*PLAIN, list, dict, tuple, set, frozenset, ModuleType)
# The callable objects of these modules are no code.
_OF_TYPES: Final = ("typing", "typing_extensions", "types", "collections", "_collections")
_DEEPEST: Final = 3  # classes inside of classes
_DECORATOR, _EXEC = re.compile(r"\s*@\s*([\w.]+)"), re.compile(r"\bexec_?\(")


def rebuilt(ours: Collection[tuple[Any, ...]]) -> Snapshot:
    """Return a snapshot in which each value is the present one, except where a foreign value was set later.

    Args:
        ours: the keys of the slots patched by hookpatch.
    """
    snapshot, order = Snapshot(), ImportOrder()
    for _, module in imports.modules():
        name = names_of_module(module).get("__name__")
        if id(module) not in snapshot.modules and type(name) is str and name.partition(".")[0] != "hookpatch":
            _Module(snapshot, order, module, name, ours).add_notes()
    note_in_packages(snapshot)
    return snapshot


@final
class _Module:
    """A look at one module. Reads the module's source at the first suspicious value."""

    def __init__(
        self,
        snapshot: Snapshot,
        order: ImportOrder,
        module: ModuleType,
        name: str,
        ours: Collection[tuple[Any, ...]],
    ) -> None:
        self._snapshot: Final = snapshot
        self._order: Final = order
        self._module: Final = module
        self._name: Final = name
        self._names: Final[Mapping[str, Any]] = names_of_module(module)
        self._file: Final = self._names.get("__file__")
        self._home: Final = of_module(name, module)
        self._ours: Final = ours
        self._source: Definitions | None = None
        self._is_read = False
        self._lines: str | None = None

    def add_notes(self) -> None:
        """Add the module, and each of its classes with a changed name."""
        note = OwnerNote(self._module, self._names, dict(self._names))
        self._snapshot.modules[id(self._module)] = note
        if self._name == "__main__":
            return
        of_python = self._home.distribution == PYTHON
        if type(self._file) is not str or (of_python and self._file.endswith(tuple(EXTENSION_SUFFIXES))):
            if of_python:  # else a module made at run time
                self._compare_c_code(note)
                for name, value in dict(self._names).items():
                    home = module_of_class(value) if issubclass(type(value), type) else None
                    if home in (self._name, f"_{self._name}"):  # _io names itself io
                        self._look_into(value, (name,))
            return
        twins = self._twins() if of_python else {}
        note.before.update(twins)
        for name, value in dict(self._names).items():
            if name not in twins:
                self._compare(note, name, value, ())
                self._compare_submodule(note, name, value)
                if issubclass(type(value), type) and self._defines(value, name):
                    self._look_into(value, (name,))
        exported: Any = self._names.get("__all__")
        for name in [*exported] if type(exported) in (list, tuple) else []:
            if type(name) is str and name not in self._names and "__getattr__" not in self._names:
                source = self._definitions(())
                if source is not None and source.is_defined(name) and name in source.always:
                    note.before[name] = self._definition((name,), source.nodes[name])

    def _compare_submodule(self, note: OwnerNote, name: str, value: Any) -> None:
        """Put a submodule into the notes, if the package has a foreign module under the submodule's name."""
        submodule = submodule_of(self._module, name) if issubclass(type(value), ModuleType) else None
        if submodule is None or submodule is value or not is_foreign(origin_of(value), self._home):
            return
        if (source := self._definitions(())) is not None:
            statements = Statements(source, self._module, self._home, self._names, self._order, value)
            if not source.may_bind(name) or statements.cannot_leave(name, is_plain=True):
                note.before[name] = submodule

    def _twins(self) -> dict[str, Any]:
        """Return the former value of each name with a value of the module's own file that was set later."""
        twins = Twins(self._name, self._names, str(self._file), lambda: self._definitions(()))
        former = dict(twins.set_later())
        source = self._definitions(()) if former else None
        for name in [name for name, value in former.items() if value is ABSENT]:
            node = source.nodes.get(name) if source is not None else None
            former[name] = Unknown() if node is None else self._definition((name,), node)
        return former

    def _definition(self, path: tuple[str, ...], node: Any) -> Any:
        """Return a stand-in for the function or class that a statement defines."""
        return definition(self._name, str(self._file), ".".join(path), node)

    def _defines(self, value: type, name: str) -> bool:
        """Return True for a class of this module, also if the package has written its own name into the class."""
        home = module_of_class(value) or ""
        if not self._name.startswith(f"{home}.") or name not in self._names:
            return home == self._name or imports.module_named(home) is self._module  # importlib's own names differ
        functions = [member for member in names_of_class(value).values() if type(member) is FunctionType]
        return any(self._is_own(member) and member.__code__.co_qualname.startswith(f"{name}.") for member in functions)

    def _look_into(self, owner: type, path: tuple[str, ...]) -> None:
        names = names_of_class(owner)
        note = OwnerNote(owner, names, dict(names))
        if not is_class_of_program(owner):
            self._compare_c_code(note)
        for name, value in [*names.items()]:
            self._compare(note, name, value, path)
            is_inside = issubclass(type(value), type) and module_of_class(value) == self._name
            if is_inside and len(path) < _DEEPEST and value.__qualname__ == f"{owner.__qualname__}.{name}":
                self._look_into(value, (*path, name))
        if len(note.before) != len(names) or any(note.before[name] is not names[name] for name in names):
            self._snapshot.classes[id(owner)] = note
            self._snapshot.homes[id(owner)] = self._name

    def _compare(self, note: OwnerNote, name: str, value: Any, path: tuple[str, ...]) -> None:
        """Put the former value of a name into the notes, if a foreign value was set later."""
        if name in OF_PYTHON or type(value) in _NEVER_REPORTED:
            return
        if is_logger(value) or (self._is_own(value) and not self._is_made_at_run_time(name, value)):
            return
        if AttributeSlot(note.owner, name).key in self._ours:
            return
        function = inner(value)
        is_swapped = type(function) is FunctionType and function.__globals__ is self._names
        origin = origin_of(function.__code__ if is_swapped else value)
        foreign, of_python = is_foreign(origin, self._home), self._home.distribution == PYTHON
        if not foreign and (origin.distribution not in (None, PYTHON) or (origin.file and not origin.distribution)):
            return  # of the same distribution, or the same file
        if not (foreign and (of_python or is_swapped)) and not self._is_odd(value, name, path, foreign):
            return
        source = self._definitions(path)
        if source is None:
            return
        if not foreign and (name not in source.always or source.is_dynamic):
            return  # a value of Python may be of another statement than the definition
        node = source.nodes.get(name)
        is_plain = self._is_plain(note.owner, path, origin)
        is_defined = source.is_defined(name) and is_plain
        if is_swapped:
            if is_defined and foreign:
                self._snapshot.swaps.append(CodeChange(function, code(str(self._file), name, node), note.owner, name))
        elif is_defined and self._is_possible(value, node):
            note.before[name] = self._beneath(value, name) or self._definition((*path, name), node)
        elif foreign:
            names = {**self._names, **note.names}
            statements = Statements(source, self._module, self._home, names, self._order, value)
            if statements.cannot_leave(name, is_plain):
                note.before[name] = self._beneath(value, name) or statements.original(name)
            elif path and is_plain and not source.may_bind(name):
                del note.before[name]  # a new method

    def _is_odd(self, value: Any, name: str, path: tuple[str, ...], foreign: bool) -> bool:
        """Return True for code that neither an import nor a decorator in the source leaves under a name."""
        kind = type(inner(value))
        below = self._beneath(value, name)
        if type(below) is FunctionType:  # the first line of a decorated function is that of the decorator
            decorator = _DECORATOR.match(linecache.getline(str(self._file), below.__code__.co_firstlineno))
            return decorator is None or (foreign and is_of_others(self._names, decorator[1], origin_of(value)))
        if not is_code(value) or (module_of_class(kind) or "").partition(".")[0] in _OF_TYPES:
            return False
        if bare_name(value) == name and not (path and foreign):
            return foreign and self._order.is_unrelated(self._home, origin_of(value))
        return foreign or f"def {name}" in self._text() or f"class {name}" in self._text()

    def _text(self) -> str:
        if self._lines is None:
            self._lines = "".join(linecache.getlines(str(self._file)))
        return self._lines

    def _is_own(self, value: Any) -> bool:
        """Return True for a value that the module's own file defines; most values are."""
        value = inner(value.fget if type(value) is property else value)
        if type(value) is FunctionType:
            own = value.__code__.co_filename
            return value.__globals__ is self._names and (own == self._file or own[:1] == "<")
        return issubclass(type(value), type) and module_of_class(value) == self._name

    def _is_made_at_run_time(self, name: str, value: Any) -> bool:
        """Return True for a function of code in no file, under a name that the source defines without ``exec``."""
        file = value.__code__.co_filename if type(value := inner(value)) is FunctionType else ""
        if name[:2] == "__" or not file.startswith("<") or file.startswith("<frozen "):
            return False
        return f"def {name}(" in self._text() and _EXEC.search(self._text()) is None  # six defines raise_from so

    def _is_plain(self, owner: Any, path: tuple[str, ...], author: Origin) -> bool:
        """Return True if no decorator, metaclass or ``__init_subclass__`` of foreign code has made a class."""
        if not path:
            return True
        outer = self._definitions(path[:-1])
        makers = [type(owner), *(base for base in mro(owner) if "__init_subclass__" in names_of_class(base))]
        is_own = not any(is_foreign(of_module(module_of_class(maker)), self._home) for maker in makers)
        if not is_own or outer is None or outer.is_defined(path[-1]):
            return is_own and outer is not None
        if outer.is_class(path[-1]) and any(map(self._is_own, names_of_class(owner).values())):
            return True  # another statement may bind the name, too, but this class is of the definition
        decorators = outer.names_in_decorators(path[-1])
        return outer.is_only_decorated(path[-1]) and all(is_of_others(self._names, name, author) for name in decorators)

    def _is_possible(self, value: Any, node: Any) -> bool:
        """Return False if the definition itself may have left the value: a class with bases can be any object."""
        return not getattr(node, "bases", ()) or is_code(value)

    def _definitions(self, path: tuple[str, ...]) -> Definitions | None:
        """Return the definitions in the module's source, or in a class; None without a source."""
        if not self._is_read:
            self._is_read = True
            self._source = read_definitions(self._names)
        definitions = self._source
        for name in path:
            definitions = None if definitions is None else definitions.inner(name)
        return definitions

    def _beneath(self, value: Any, name: str) -> Any:
        """Return the module's own function or class of this name, if a wrapper keeps it; else None."""
        for _ in range(_DEEPEST):
            function = inner(value)
            wrapper = wrapping(value, AttributeSlot(self._module, name))
            below = ABSENT if wrapper is None else wrapper.below
            cells = function.__closure__ or () if type(function) is FunctionType else ()
            for candidate in (below, *(cell.cell_contents for cell in cells if _is_filled(cell))):
                if candidate is not ABSENT and self._is_own(candidate) and bare_name(candidate) == name:
                    return candidate
            if below is ABSENT:
                return None
            value = below
        return None

    def _compare_c_code(self, note: OwnerNote) -> None:
        """Put the former values of a module or class of C code into the notes: Python code there was set later.

        New names come after all other names.
        """
        origins = {
            name: origin_of(value) if is_code(value) or is_object(value) else Origin()
            for name, value in [*note.names.items()]
        }
        is_last = True
        for name, origin in reversed(origins.items()):
            if not origin.is_known or origin.distribution == PYTHON or name in OF_PYTHON:
                is_last = is_last and name == "_"
            elif is_last:
                del note.before[name]
            elif AttributeSlot(note.owner, name).key not in self._ours:
                note.before[name] = self._beneath(note.names[name], name) or Unknown()


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not ABSENT
    except ValueError:
        return False
