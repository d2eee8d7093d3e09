"""What an owner holds at a moment, and how that differs from what it held before.

Reading wakes nothing and makes nothing: no property runs, no defaultdict makes an entry, no lazy module is loaded. So
nothing here asks an object for an attribute, not even for its ``__class__`` (``isinstance`` does), unless its type is
known.
"""

from __future__ import annotations

import reprlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType, NoneType
from typing import Any, Final, final

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._footprint import by, layers_at
from hookpatch._function_slot import FunctionSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._slot import ABSENT, along_mro, mro, same

# What the interpreter keeps of an object outside its __dict__, and somebody may set.
_OUTSIDE: Final[Mapping[type, tuple[str, ...]]] = {
    type: ("__bases__", "__module__", "__name__", "__qualname__"),
    FunctionType: ("__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__"),
    CellType: ("cell_contents",),
}
_ADDRESSED: Final[Mapping[type, str]] = {ModuleType: "module", type: "class", FunctionType: "function"}
_PLAIN: Final = (NoneType, bool, int, float, str, bytes)


class _Values(dict[Any, Any]):
    """Of a type of ours, so that a patch with reach="everywhere" does not take it for a holder and change it."""


class _Entries(list[Any]):
    """Likewise."""


@final
class Snapshot:
    """What an owner holds when this is made: its attributes and items, and what its Python functions are made of."""

    __slots__ = ("_attributes", "_entries", "_inside", "_items", "_kind", "_name", "_owner")  # no __dict__, likewise

    def __init__(self, owner: Any, name: str | None = None, within: bool = True) -> None:
        """Take one.

        Args:
            owner: a module, class, function, mapping, list or any other object.
            name: how messages name it.
            within: False to leave out what the functions among its attributes, or in its closure, are made of.
        """
        self._owner: Final = owner
        self._name: Final = name or _name(owner)
        self._kind: Final = type(owner)
        self._attributes: Final = _Values(_attributes(owner))
        self._items: Final = _Values(_items(owner))
        self._entries: Final = _Entries(_entries(owner))
        inside: dict[int, Snapshot] = {}
        for attribute, value in self._attributes.items() if within else ():
            for part, function in _functions(value):
                inside.setdefault(id(function), Snapshot(function, self._at(attribute) + part, within=False))
        if self._kind is FunctionType:
            if defaults := self._attributes["__kwdefaults__"]:
                inside[id(defaults)] = Snapshot(defaults, f"{self._name}.__kwdefaults__", within=False)
            # Only of a function that is asked for: closures keep counters and caches, which change with each call.
            for at, cell in enumerate(self._attributes["__closure__"] or ()) if within else ():
                inside[id(cell)] = Snapshot(cell, f"{self._name}.__closure__[{at}]", within=False)
        self._inside: Final = tuple(inside.values())

    def differences(self, order: bool = False, submodules: bool = True) -> Iterator[str]:
        """Compare with what the owner holds now: yield a line for each difference.

        Args:
            order: True to compare the order of attributes, too; that of a mapping's keys always is.
            submodules: False to leave out submodules that were imported since, which an import puts into a package.
        """
        now = Snapshot(self._owner, self._name, within=False)
        if now._kind is not self._kind:
            yield f"{self._name} was {in_words(self._kind)}'s, is {in_words(now._kind)}'s"
        for name, was, value in _changed(self._attributes, now._attributes):
            if not submodules and was is ABSENT and self._is_submodule(name, value):
                continue
            yield self._line(self._at(name), was, value, AttributeSlot(self._owner, name).key)
        if order:
            yield from _moved(f"the names of {self._name}", self._attributes, now._attributes)
        for key, was, value in [*_changed(self._items, now._items), *changed_entries(self._entries, now._entries)]:
            yield self._line(f"{self._name}[{_name(key)}]", was, value, ItemSlot(self._owner, key).key)
        yield from _moved(f"the keys of {self._name}", self._items, now._items)
        for inside in self._inside:
            yield from inside.differences()

    def _is_submodule(self, name: str, value: Any) -> bool:
        if not issubclass(self._kind, ModuleType) or not issubclass(type(value), ModuleType):
            return False
        own: Any = self._attributes.get("__name__")
        return bool(_attributes(value).get("__name__") == f"{own}.{name}")

    def _at(self, name: str) -> str:
        is_module = issubclass(self._kind, ModuleType)
        return f"{self._name}{':' if is_module else '.'}{name}"

    def _line(self, place: str, was: Any, value: Any, key: tuple[object, ...]) -> str:
        layers = layers_at(key)
        if self._kind is FunctionType:
            layers += layers_at(FunctionSlot(self._owner, binds=False).key)  # changed in place
        elif self._kind is partial:
            layers += layers_at(("partial", *key[1:]))
        whose = ", patched by " + " and ".join(map(by, layers)) if layers else ""
        return f"{place} was {in_words(was)}, is {in_words(value)}{whose}"


def _functions(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions and partials that a value is or is made of, each with its place in it."""
    kind = type(value)
    if kind in (FunctionType, partial):
        yield "", value
    elif issubclass(kind, (staticmethod, classmethod)) or kind is MethodType:
        yield from _functions(value.__func__)
    elif issubclass(kind, property):
        for part in ("fget", "fset", "fdel"):
            yield from ((f".{part}", function) for _, function in _functions(vars(property)[part].__get__(value)))


def _attributes(owner: Any) -> dict[str, Any]:
    """Return the attributes of an owner's own, those in its __dict__ first."""
    kind = type(owner)
    own: dict[str, Any] = {}
    known = along_mro(kind, "__dict__")
    if known is not ABSENT:
        with suppress(AttributeError):  # a proxy of an object that has none
            # Not vars(owner): a module whose loading importlib has put off is loaded by any look at an attribute.
            own.update(known.__get__(owner, kind))
    for outside, names in _OUTSIDE.items():
        if issubclass(kind, outside):
            with suppress(ValueError):  # an empty cell
                own |= {name: vars(outside)[name].__get__(owner) for name in names}
    own.pop("__warningregistry__", None)  # the interpreter puts it into a module that warns
    if issubclass(kind, type):
        return own  # its members are numbers of the interpreter's
    for base in mro(kind):
        for name, member in vars(base).items():
            if type(member) is MemberDescriptorType and name not in ("__dict__", "__weakref__"):
                with suppress(AttributeError):  # an empty slot
                    own.setdefault(name, member.__get__(owner))
    return own


def _items(owner: Any) -> dict[Any, Any]:
    """Return the items of a mapping as it keeps them, nothing for what is none."""
    kind = type(owner)
    for raw in (OrderedDict, dict):
        if issubclass(kind, raw):
            return dict(raw.items(owner))
    return {key: owner[key] for key in list(owner)} if issubclass(kind, Mapping) else {}


def _entries(owner: Any) -> list[Any]:
    """Return the entries of a list, nothing for what is none."""
    kind = type(owner)
    if issubclass(kind, list):
        return list(list.__iter__(owner))
    return list(owner) if issubclass(kind, MutableSequence) else []


def _changed(before: Mapping[Any, Any], now: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield what was set, put there or taken away: its key, what was there, what is there."""
    for key in dict.fromkeys([*before, *now]):
        was, value = before.get(key, ABSENT), now.get(key, ABSENT)
        if not same(was, value):
            yield key, was, value


def changed_entries(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Yield what changed in a list: its place, what was there, what is there; not what only moved along."""
    before, now, start = list(before), list(now), 0
    while before and now and same(before[-1], now[-1]):
        del before[-1], now[-1]
    while start < min(len(before), len(now)) and same(before[start], now[start]):
        start += 1
    for place, (was, value) in enumerate(zip_longest(before[start:], now[start:], fillvalue=ABSENT), start):
        yield place, was, value


def _moved(what: str, before: Mapping[Any, Any], now: Mapping[Any, Any]) -> Iterator[str]:
    """Yield a line if the keys that were there and still are stand in another order, or are others that are equal."""
    there: Sequence[Any] = [key for key in before if key in now]
    here: Sequence[Any] = [key for key in now if key in before]
    for was, key in zip(there, here, strict=True):
        if was is not key and (type(was) is not type(key) or was != key):
            yield f"the order of {what}: {_name(key)} is where {_name(was)} was"
            return


def in_words(value: Any) -> str:
    """Return how a message names a value, without asking it."""
    kind = type(value)
    if value is ABSENT:
        return "absent"
    if kind in _PLAIN:
        return reprlib.repr(value)
    if issubclass(kind, (staticmethod, classmethod)):
        return f"{kind.__name__} of {in_words(value.__func__)}"
    if kind is tuple:
        return f"({', '.join([*map(in_words, value[:3]), *['...'][: len(value) > 3]])})"
    for known, word in _ADDRESSED.items():
        if issubclass(kind, known):
            return f"{word} {_name(value)} at {id(value):#x}"
    return _name(value)


def _name(thing: Any) -> str:
    """Return how a message names an owner or a key: its address where it has one."""
    kind = type(thing)
    if kind in _PLAIN:
        return reprlib.repr(thing)
    own = _attributes(thing)
    if issubclass(kind, ModuleType):
        return str(own.get("__name__"))
    if issubclass(kind, (FunctionType, type)):
        return f"{own['__module__']}:{own['__qualname__']}"
    return f"<{_attributes(kind)['__qualname__']} object at {id(thing):#x}>"
