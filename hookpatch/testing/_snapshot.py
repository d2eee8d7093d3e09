"""Record the attributes and items of an owner, and compare with a later state.

Reading must change nothing: no property runs, no defaultdict adds an entry, no lazy module is loaded. The code asks an
object of unknown type for no attribute, not even ``__class__``; hence ``issubclass(type(x), ...)``, not ``isinstance``.
"""

from __future__ import annotations

import reprlib
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, final

from hookpatch._engine.patch.describe import PLAIN, describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import ABSENT, along_mro, is_same_value, mro
from hookpatch.testing._leaks import layers_at, owner_in_words

# Writable attributes that the interpreter stores outside an object's __dict__.
_OUTSIDE: Final[Mapping[type, tuple[str, ...]]] = {
    type: ("__bases__", "__module__", "__name__", "__qualname__"),
    FunctionType: (
        *("__code__", "__defaults__", "__doc__", "__kwdefaults__", "__module__", "__name__", "__qualname__"),
        *("__annotate__",)[: sys.version_info >= (3, 14)],
    ),
    CellType: ("cell_contents",),
}
# Set by Python itself: in a module that warns; in a class, when one of its objects is copied or pickled.
_OF_PYTHON: Final = ("__warningregistry__", "__slotnames__")
# Members that are no state of the object: the first call of a functools.partial may change where Python calls it.
_OF_THE_INTERPRETER: Final = ("__dict__", "__weakref__", "__vectorcalloffset__")
_ADDRESSED: Final[Mapping[type, str]] = {ModuleType: "module", type: "class", FunctionType: "function"}


# Subclasses: reach="everywhere" searches plain dicts and lists for the original value, and would change a snapshot.
class _Values(dict[Any, Any]):
    pass


class _Entries(list[Any]):
    pass


@final
class Snapshot:
    """A copy of the attributes and items of an owner, and of the parts of its Python functions."""

    # No __dict__: reach="everywhere" would find the dict.
    __slots__ = ("_attributes", "_entries", "_inside", "_items", "_kind", "_name", "_owner")

    def __init__(self, owner: Any, name: str | None = None, within: bool = True) -> None:
        """Copy the state of an owner; ``within=False`` leaves out its closure and the parts of its functions."""
        self._owner: Final = owner
        self._name: Final = name or _name(owner)
        self._kind: Final = type(owner)
        self._attributes: Final = _Values(_attributes(owner))
        self._items: Final = _Values(_items(owner))
        self._entries: Final = _Entries(_entries(owner))
        inside: dict[int, Snapshot] = {}
        for attribute, value in self._attributes.items() if within else ():
            for part, function in _functions(value):
                inside.setdefault(id(function), Snapshot(function, self._address(attribute) + part, within=False))
        if self._kind is FunctionType:
            if defaults := self._attributes["__kwdefaults__"]:
                inside[id(defaults)] = Snapshot(defaults, f"{self._name}.__kwdefaults__", within=False)
            # Not of functions among the attributes: a closure may have counters and caches, which change at each call.
            for index, cell in enumerate(self._attributes["__closure__"] or ()) if within else ():
                inside[id(cell)] = Snapshot(cell, f"{self._name}.__closure__[{index}]", within=False)
        self._inside: Final = tuple(inside.values())

    def differences(self, order: bool = False, submodules: bool = True) -> Iterator[str]:
        """Compare with the owner's current state: yield a line for each difference.

        Always compares the order of a mapping's keys; ``order``: also the order of attributes. ``submodules=False``
        ignores submodules imported since, which the import system sets on a package.
        """
        current = Snapshot(self._owner, self._name, within=False)
        if current._kind is not self._kind:
            yield f"{self._name} was {with_identity(self._kind)}'s, is {with_identity(current._kind)}'s"
        for name, was, value in _changed(self._attributes, current._attributes):
            if not submodules and was is ABSENT and self._is_submodule(name, value):
                continue
            yield self._line(self._address(name), was, value, AttributeSlot(self._owner, name).key)
        if order:
            yield from _moved(f"the names of {self._name}", self._attributes, current._attributes)
        for key, was, value in [
            *_changed(self._items, current._items),
            *changed_entries(self._entries, current._entries),
        ]:
            yield self._line(f"{self._name}[{_name(key)}]", was, value, ItemSlot(self._owner, key).key)
        yield from _moved(f"the keys of {self._name}", self._items, current._items)
        for inside in self._inside:
            yield from inside.differences()

    def _is_submodule(self, name: str, value: Any) -> bool:
        if not issubclass(self._kind, ModuleType) or not issubclass(type(value), ModuleType):
            return False
        own: Any = self._attributes.get("__name__")
        return bool(_attributes(value).get("__name__") == f"{own}.{name}")

    def _address(self, name: str) -> str:
        is_module = issubclass(self._kind, ModuleType)
        return f"{self._name}{':' if is_module else '.'}{name}"

    def _line(self, place: str, was: Any, value: Any, key: tuple[object, ...]) -> str:
        layers = layers_at(key)
        if self._kind is FunctionType:
            layers += layers_at(FunctionSlot(self._owner, binds=False).key)  # the function's code is replaced
        elif self._kind is partial:
            layers += layers_at(("partial", *key[1:]))
        owners = ", patched by " + " and ".join(map(owner_in_words, layers)) if layers else ""
        return f"{place} was {with_identity(was)}, is {with_identity(value)}{owners}"


def _functions(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions and partials in a value, each with its place in the value."""
    kind = type(value)
    if kind in (FunctionType, partial):
        yield "", value
    elif issubclass(kind, (staticmethod, classmethod)) or kind is MethodType:
        yield from _functions(value.__func__)
    elif issubclass(kind, property):
        for part in ("fget", "fset", "fdel"):
            yield from ((f".{part}", function) for _, function in _functions(vars(property)[part].__get__(value)))


def _attributes(owner: Any) -> dict[str, Any]:
    """Return the own attributes of an owner, first those in its ``__dict__``."""
    kind = type(owner)
    own: dict[str, Any] = {}
    namespace = along_mro(kind, "__dict__")
    if namespace is not ABSENT:
        with suppress(AttributeError):  # a proxy of an object without __dict__
            # Not vars(owner): importlib loads a lazy module at the first access to an attribute.
            own.update(namespace.__get__(owner, kind))
    for outside, names in _OUTSIDE.items():
        if issubclass(kind, outside):
            with suppress(ValueError):  # an empty cell
                own |= {name: vars(outside)[name].__get__(owner) for name in names}
    for name in _OF_PYTHON:
        own.pop(name, None)
    if issubclass(kind, type):
        return own  # member descriptors of a class are numbers of the interpreter
    for base in mro(kind):
        for name, member in vars(base).items():
            if type(member) is MemberDescriptorType and name not in _OF_THE_INTERPRETER:
                with suppress(AttributeError):  # an empty slot
                    own.setdefault(name, member.__get__(owner))
    return own


def _items(owner: Any) -> dict[Any, Any]:
    """Return the stored items of a mapping; an empty dict for any other owner."""
    kind = type(owner)
    for raw in (OrderedDict, dict):
        if issubclass(kind, raw):
            return dict(raw.items(owner))
    return {key: owner[key] for key in list(owner)} if issubclass(kind, Mapping) else {}


def _entries(owner: Any) -> list[Any]:
    """Return the entries of a list; an empty list for any other owner."""
    kind = type(owner)
    if issubclass(kind, list):
        return list(list.__iter__(owner))
    return list(owner) if issubclass(kind, MutableSequence) else []


def _changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield key, old value and new value of each changed entry; ABSENT for a missing value."""
    for key in dict.fromkeys([*before, *after]):
        was, value = before.get(key, ABSENT), after.get(key, ABSENT)
        if not is_same_value(was, value):
            yield key, was, value


def changed_entries(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Yield index, old value and new value of each changed entry of a list, but no entries that only moved."""
    before, after, start = list(before), list(after), 0
    while before and after and is_same_value(before[-1], after[-1]):
        del before[-1], after[-1]
    while start < min(len(before), len(after)) and is_same_value(before[start], after[start]):
        start += 1
    for place, (was, value) in enumerate(zip_longest(before[start:], after[start:], fillvalue=ABSENT), start):
        yield place, was, value


def _moved(label: str, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    """Yield a line if the common keys have another order, or were replaced by equal keys."""
    for was, key in zip((key for key in before if key in after), (key for key in after if key in before), strict=True):
        if was is not key and (type(was) is not type(key) or was != key):
            yield f"the order of {label}: {_name(key)} is where {_name(was)} was"
            return


def with_identity(value: Any) -> str:
    """Return a short text for a value with its id, so that equal values differ. Runs no code of the value."""
    kind = type(value)
    if value is ABSENT:
        return "absent"
    if issubclass(kind, (staticmethod, classmethod)):
        return f"{kind.__name__} of {with_identity(value.__func__)}"
    if kind is tuple:
        return f"({', '.join([*map(with_identity, value[:3]), *['...'][: len(value) > 3]])})"
    for addressed, word in _ADDRESSED.items():
        if issubclass(kind, addressed):
            return f"{word} {describe(value)} at {id(value):#x}"
    return _name(value)


def _name(value: Any) -> str:
    return reprlib.repr(value) if type(value) in PLAIN else describe(value)
