"""Keep the values of each module and class at the end of the module's execution.

Raw dictionaries and ``type(x)`` alone are read: no lazy module wakes, and no property or ``__class__`` of foreign code
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from operator import is_
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.slot import ABSENT, attributes_of, mro
from hookpatch._inspect.audit.kinds import OF_PYTHON

names_of_module: Final[Any] = vars(ModuleType)["__dict__"].__get__
_names_of_class: Final[Any] = type.__dict__["__dict__"].__get__
_module_of_class: Final[Any] = type.__dict__["__module__"].__get__
code_of: Final[Any] = FunctionType.__dict__["__code__"].__get__


def names_of_class(owner: type) -> Mapping[str, Any]:
    """Return the living names of a class; empty for an unready class of C code."""
    return _names_of_class(owner) or {}


def module_of_class(owner: type) -> str | None:
    """Return the name of the module of a class, in C from the class's name; None if the class hides the name."""
    name = _module_of_class(owner)
    return name if type(name) is str else None


class OwnerNote(NamedTuple):
    """A module or class, with the living names, and the former values of the names."""

    owner: Any
    names: Mapping[str, Any]
    before: dict[str, Any]


@final
class Unknown:
    """The original value of a slot, if only the existence of a value is known."""


class Change(NamedTuple):
    """A name of a module or class with another value than in the snapshot. ABSENT marks a missing value."""

    owner: Any
    name: str
    before: Any
    now: Any


class EntryChange(NamedTuple):
    """An entry of a dictionary that a module or class holds. ABSENT marks a missing value."""

    owner: Any
    name: str
    mapping: dict[Any, Any]
    key: Any
    before: Any
    now: Any


@final
class Snapshot:
    """The former values of modules and classes. Keeps all values alive: no id is used twice.

    Args:
        with_entries: True to note the entries of dictionaries, too, and of mappings that keep entries in dictionaries.

    Attributes:
        modules: the modules, by id: a module may be executed twice under the same name, in two objects.
        classes: the classes, by id.
        homes: the module in which each class was met, by the id of the class.
        codes: the code of each function, with the owner and the name under which the function was met.
    """

    def __init__(self, with_entries: bool = False) -> None:
        self.modules: Final[dict[int, OwnerNote]] = {}
        self.classes: Final[dict[int, OwnerNote]] = {}
        self.homes: Final[dict[int, str]] = {}
        self.codes: Final[dict[FunctionType, tuple[CodeType, Any, str]]] = {}
        self._of_ended: Final[set[int]] = set()  # classes noted at the end of their own module
        self._with_entries: Final = with_entries
        self._entries: Final[dict[int, tuple[Any, str, dict[Any, Any], list[tuple[Any, Any]]]]] = {}

    def note_module(self, name: str, module: ModuleType) -> None:
        """Note the values of a module and its classes, at the end of the module's execution; after a reload anew."""
        names = names_of_module(module)
        note = self.modules[id(module)] = OwnerNote(module, names, dict(names))
        self._look_into(note, name)

    def _look_into(self, note: OwnerNote, module: str) -> None:
        """Note the code of the functions of a module or class, and the inner classes; a class of this module anew."""
        codes, classes = self.codes, self.classes
        inner_notes: list[OwnerNote] = []
        for name, value in note.before.items():
            kind = type(value)
            if kind is FunctionType:
                if value not in codes:
                    codes[value] = code_of(value), note.owner, name
            elif kind is staticmethod or kind is classmethod or kind is property:
                function = value.fget if kind is property else value.__func__
                if type(function) is FunctionType and function not in codes:
                    codes[function] = code_of(function), note.owner, name
            elif self._with_entries and issubclass(kind, dict) and name not in OF_PYTHON:
                self._note_entries(note.owner, name, value)
            elif self._with_entries and MutableMapping in mro(kind):
                for attribute, inside in dict(attributes_of(value) or {}).items():
                    if issubclass(type(inside), dict):
                        self._note_entries(note.owner, f"{name}.{attribute}", inside)
            elif issubclass(kind, type) and self._is_new(value, module):
                names = names_of_class(value)
                classes[id(value)] = inside = OwnerNote(value, names, dict(names))
                self.homes.setdefault(id(value), module)
                inner_notes.append(inside)
        for inside in inner_notes:
            self._look_into(inside, module)

    def _note_entries(self, owner: Any, name: str, mapping: dict[Any, Any]) -> None:
        self._entries.setdefault(id(mapping), (owner, name, mapping, [*dict.items(mapping)]))

    def _is_new(self, value: Any, module: str) -> bool:
        """Return True for a class not met yet, or met by another module before the end of its own module."""
        if id(value) in self._of_ended:
            return False
        is_own = module_of_class(value) == module
        if is_own:
            self._of_ended.add(id(value))
        return is_own or id(value) not in self.classes

    def owners(self) -> Iterator[OwnerNote]:
        """Yield each module, then each class. The caller leaves out a module that sys.modules has lost."""
        yield from [*self.modules.values()]
        yield from [*self.classes.values()]

    def changes(self, owners: Iterable[OwnerNote]) -> Iterator[Change]:
        """Yield the owners' names with another value or without a value, and the added names."""
        for note in owners:
            before, names = note.before, note.names
            if len(names) == len(before) and all(map(is_, names.values(), before.values())):
                continue
            current = dict(names)
            for name, value in before.items():
                if (present := current.get(name, ABSENT)) is not value:
                    yield Change(note.owner, name, value, present)
            for name in current.keys() - before.keys():
                yield Change(note.owner, name, ABSENT, current[name])

    def swapped(self) -> Iterator[tuple[FunctionType, CodeType, Any, str]]:
        """Yield each function with another code object: the function, the old code, the owner, the name."""
        for function, (code, owner, name) in [*self.codes.items()]:
            if code_of(function) is not code:
                yield function, code, owner, name

    def entries(self) -> Iterator[EntryChange]:
        """Yield each entry of a noted dictionary with another value or without a value, and the added entries."""
        for owner, name, mapping, noted in [*self._entries.values()]:
            if imports.is_of_modules(mapping):
                continue
            before, current = _by_key(noted), _by_key([*dict.items(mapping)])
            for mark in {**before, **current}:
                key, old = before.get(mark, (None, ABSENT))
                key, new = current.get(mark, (key, ABSENT))
                if old is not new:
                    yield EntryChange(owner, name, mapping, key, old, new)


def _by_key(entries: Iterable[tuple[Any, Any]]) -> dict[Any, tuple[Any, Any]]:
    """Return key and value by the plain key, else by the key's id: no ``__hash__`` or ``__eq__`` of a key runs."""
    return {(type(key), key if type(key) in PLAIN else id(key)): (key, value) for key, value in entries}
