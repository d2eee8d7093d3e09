"""Keep the values of each module and class at the end of the module's execution.

Raw dictionaries and ``type(x)`` alone are read: no lazy module is imported, and no property or ``__class__`` of
foreign code runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from operator import is_
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple, final
from weakref import WeakKeyDictionary

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.slot import ABSENT, attributes_of, mro
from hookpatch._engine.source.location import in_words
from hookpatch._inspect.audit.kinds import OF_PYTHON

_names_of_module: Final[Any] = vars(ModuleType)["__dict__"].__get__
_names_of_class: Final[Any] = type.__dict__["__dict__"].__get__
_module_of_class: Final[Any] = type.__dict__["__module__"].__get__
code_of: Final[Any] = FunctionType.__dict__["__code__"].__get__


def names_of_module(module: Any) -> dict[str, Any]:
    """Return the living names of a module; none of another object in its place, as pyfakefs and snoop put there."""
    names: dict[str, Any] = _names_of_module(module) if issubclass(type(module), ModuleType) else {}
    return names


def names_of_class(owner: type) -> Mapping[str, Any]:
    """Return the living names of a class. Python makes those of some classes of C at the first look at an attribute."""
    return _names_of_class(owner) or (mro(owner) and _names_of_class(owner)) or {}


def function_in(value: Any) -> FunctionType | None:
    """Return the function that a slot holds, plain or in a static method, class method or property; else None."""
    kind = type(value)
    if kind is staticmethod or kind is classmethod or kind is property:
        value = value.fget if kind is property else value.__func__
    return value if type(value) is FunctionType else None


def module_of_class(owner: type) -> str | None:
    """Return the name of the module of a class, in C from the class's name; None if the class hides the name."""
    name = _module_of_class(owner)
    return name if type(name) is str else None


def names_holding(originals: Mapping[int, Any]) -> dict[int, list[tuple[int, str, str]]]:
    """Return, by the id of an original, the names in modules that hold the original: owner's id, name, address."""
    names_by_id: dict[int, list[tuple[int, str, str]]] = {}
    for module_name, module in imports.modules():
        for name, value in [*names_of_module(module).items()] if module_name.partition(".")[0] != "hookpatch" else ():
            if id(value) in originals:
                names_by_id.setdefault(id(value), []).append((id(module), name, f"{module_name}:{name}"))
    return names_by_id


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


def submodule_of(package: Any, name: str) -> ModuleType | None:
    """Return the submodule that an import of this name puts into a package; None without one."""
    home = names_of_module(package).get("__name__") if issubclass(type(package), ModuleType) else None
    module = imports.module_named(f"{home}.{name}") if type(home) is str else None
    return module if issubclass(type(module), ModuleType) else None


def submodule_noted(change: Change) -> Change:
    """Return the change with the submodule as the former value, if an import put the name into the package later."""
    submodule = submodule_of(change.owner, change.name) if change.before is ABSENT else None
    return change if submodule is None or submodule is change.now else change._replace(before=submodule)


class EntryChange(NamedTuple):
    """An entry of a dictionary that a module or class holds. ABSENT marks a missing value."""

    owner: Any
    name: str
    mapping: dict[Any, Any]
    key: Any
    before: Any
    now: Any


class CodeChange(NamedTuple):
    """A function with another code object, and the owner and the name under which the function was met.

    ``place`` is the statement that set the code, None if no statement was observed.
    """

    function: FunctionType
    code: CodeType
    owner: Any
    name: str
    place: str | None = None


def in_address(key: Any) -> str:
    """Return a key as in an address: a plain value as in Python, a class by its address, any other key in words.

    Some classes have another name than their own: the class of tracebacks is ``types:TracebackType``.
    """
    if type(key) is type and "." not in key.__qualname__:
        homes = [home for home in (imports.loaded(str(key.__module__)), imports.loaded("types")) if home is not None]
        for home in homes:
            names = [name for name, value in [*names_of_module(home).items()] if value is key]
            if names and key.__qualname__ not in names:
                return f"{home.__name__}:{names[0]}"
    return repr(key) if type(key) in PLAIN else in_words(key)


@final
class Snapshot:
    """The former values of modules and classes. Keeps all values alive: no id is used twice.

    No code of a function is noted ahead: Python reports each assignment of code to the recorder.

    Args:
        with_entries: True to note the entries of dictionaries, too, and of mappings that keep entries in dictionaries.

    Attributes:
        modules: the modules, by id: a module may be executed twice under the same name, in two objects.
        classes: the classes, by id.
        homes: the module in which each class was met, by the id of the class.
        swaps: changed code that was found otherwise than by an observed assignment.
    """

    def __init__(self, with_entries: bool = False) -> None:
        self.modules: Final[dict[int, OwnerNote]] = {}
        self.classes: Final[dict[int, OwnerNote]] = {}
        self.homes: Final[dict[int, str]] = {}
        self.swaps: Final[list[CodeChange]] = []
        self._noted: Final[list[OwnerNote]] = []  # in the order of the notes
        # By function and number of notes made before: the first code replaced, and the place of the last assignment.
        self._codes: Final[WeakKeyDictionary[FunctionType, dict[int, tuple[CodeType, str]]]] = WeakKeyDictionary()
        self._of_ended: Final[set[int]] = set()  # classes noted at the end of their own module
        self._with_entries: Final = with_entries
        self._entries: Final[dict[int, tuple[Any, str, dict[Any, Any], list[tuple[Any, Any]]]]] = {}

    def note_module(self, name: str, module: ModuleType) -> None:
        """Note the values of a module and its classes, at the end of the module's execution; after a reload anew."""
        note = self.modules[id(module)] = self._note(module, names_of_module(module))
        self._look_into(note, name)

    def note_code(self, function: FunctionType, place: str) -> None:
        """Note the code of a function, just before a statement sets other code."""
        codes, number = self._codes.setdefault(function, {}), len(self._noted)
        codes[number] = codes[number][0] if number in codes else code_of(function), place

    def place_of_code(self, function: FunctionType) -> str | None:
        """Return the statement that last set the code of a function; None if no statement was observed."""
        codes = self._codes.get(function)
        return [*codes.values()][-1][1] if codes else None

    def _note(self, owner: Any, names: Mapping[str, Any]) -> OwnerNote:
        note = OwnerNote(owner, names, names.copy())  # type: ignore[attr-defined]  # a dict or a mappingproxy
        self._noted.append(note)
        return note

    def _look_into(self, note: OwnerNote, module: str) -> None:
        """Note the classes in a module or class, and with entries the dictionaries; a class of this module anew."""
        inner_notes: list[OwnerNote] = []
        for value in [value for value in note.before.values() if issubclass(type(value), type)]:
            if self._is_new(value, module):
                self.classes[id(value)] = inside = self._note(value, names_of_class(value))
                self.homes.setdefault(id(value), module)
                inner_notes.append(inside)
        if self._with_entries:
            self._look_for_entries(note)
        for inside in inner_notes:
            self._look_into(inside, module)

    def _look_for_entries(self, note: OwnerNote) -> None:
        for name, value in note.before.items():
            if issubclass(type(value), dict) and name not in OF_PYTHON:
                self._note_entries(note.owner, name, value)
            elif MutableMapping in mro(type(value)):
                for attribute, mapping in dict(attributes_of(value) or {}).items():
                    if issubclass(type(mapping), dict):
                        self._note_entries(note.owner, f"{name}.{attribute}", mapping)

    def _note_entries(self, owner: Any, name: str, mapping: dict[Any, Any]) -> None:
        self._entries.setdefault(id(mapping), (owner, name, mapping, [*dict.items(mapping)]))

    def _is_new(self, value: type, module: str) -> bool:
        """Return True for a class not met yet, or met by another module before the end of its own module."""
        identity = id(value)  # once: each call raises an audit event, which the recorder hears
        if identity in self._of_ended:
            return False
        is_own = module_of_class(value) == module
        if is_own:
            self._of_ended.add(identity)
        return is_own or identity not in self.classes

    def owners(self) -> Iterator[OwnerNote]:
        """Yield each module, then each class. The caller leaves out a module that sys.modules has lost."""
        yield from [*self.modules.values()]
        yield from [*self.classes.values()]

    def hidden_by(self, owner: type, name: str) -> tuple[type, Any] | None:
        """Return the nearest base class with a former value of a name, and the value; None without one."""
        for base in mro(owner)[1:]:
            note = self.classes.get(id(base))
            names = names_of_class(base) if note is None else note.before
            if name in names:
                return base, names[name]
        return None

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

    def swapped(self) -> Iterator[CodeChange]:
        """Yield each function with other code than when the function was met."""
        yield from self.swaps
        codes = dict(self._codes.items())
        for function, (number, owner, name) in self._met(codes).items():
            later = [entry for moment, entry in codes[function].items() if moment > number]
            if later and later[0][0] is not code_of(function):
                yield CodeChange(function, later[0][0], owner, name, later[-1][1])

    def address_of(self, function: FunctionType) -> tuple[Any, str] | None:
        """Return the owner and the name under which a function was met first, None if no note has the function."""
        met = self._met([function])
        return met[function][1:] if met else None

    def _met(self, functions: Collection[FunctionType]) -> dict[FunctionType, tuple[int, Any, str]]:
        """Return the first note of each function: the number of the note, the owner and the name."""
        met: dict[FunctionType, tuple[int, Any, str]] = {}
        for number, note in enumerate(self._noted if functions else ()):
            for name, value in note.before.items():
                function = function_in(value)
                if function is not None and function in functions and function not in met:
                    met[function] = number, note.owner, name
        return met

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
