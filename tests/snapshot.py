"""A snapshot of all objects within reach of a module, to be compared later; without hookpatch's code."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from importlib.machinery import ModuleSpec
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final

ABSENT: Final = object()
FUNCTION: Final = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__qualname__", "__doc__")

Held = list[tuple[str, Any, Any]]  # of each place: its text after the owner's, its key, its value


class Snapshot:
    """All owners within reach of a module: their keys in order, and the identical objects under the keys."""

    def __init__(self, module: ModuleType) -> None:
        self._home: Final = module.__name__
        self._owners: Final[dict[str, tuple[Any, list[MemberDescriptorType], Held]]] = {}
        todo: list[tuple[str, Any]] = [("", module)]
        visited = set()
        for place, owner in todo:  # the list grows during the loop
            if id(owner) in visited:
                continue
            visited.add(id(owner))
            kinds = [] if isinstance(owner, type) else [k for k in type(owner).__mro__ if k.__module__ == self._home]
            # Taken now: a patch may replace the descriptor of a member of __slots__ in the class.
            members = [
                member for kind in kinds for member in vars(kind).values() if type(member) is MemberDescriptorType
            ]
            entries = _own_values(owner, members)
            self._owners[place] = owner, members, entries
            for step, _, value in entries:
                if self._goes_into(value) and not (is_mapping(owner) and step.startswith(".")):
                    todo.append((_joined(place, step), getattr(value, "__func__", value)))

    def _goes_into(self, value: Any) -> bool:
        kind = type(value)
        if kind in (FunctionType, staticmethod, classmethod) or issubclass(kind, type):
            return bool(value.__module__ == self._home)
        return kind in (dict, OrderedDict, defaultdict, list) or kind.__module__ == self._home or kind is ModuleSpec

    def of_function(self, function: object) -> str:
        """Return the place of a function."""
        return next(place for place, (owner, _, _) in self._owners.items() if owner is function)

    def drop(self, place: str) -> None:
        """Note that a place was absent."""
        self._owners.pop(place, None)
        for owner_place, (_, _, entries) in self._owners.items():
            entries[:] = [entry for entry in entries if _joined(owner_place, entry[0]) != place]

    def forget_module(self, module: ModuleType) -> None:
        """Forget the names of a module that is executed anew."""
        if self._owners.get("", (None,))[0] is module:
            del self._owners[""]

    def now(self, place: str) -> Any:
        """Return the value at a place now, or ABSENT."""
        for owner_place, (owner, members, _) in self._owners.items():
            for step, _, value in _own_values(owner, members) if place.startswith(owner_place) else ():
                if _joined(owner_place, step) == place:
                    return value
        return ABSENT

    def changed(self, moved: str = "") -> list[str]:
        """Return the places with another object or key, removed and added places, and the owners out of order.

        Args:
            moved: a place whose position in its owner does not count.
        """
        changes: list[str] = []
        for owner_place, (owner, members, before) in self._owners.items():
            after = _own_values(owner, members)
            if len(before) == len(after) and all(map(_is_same, before, after)):
                continue
            old, new = ({_joined(owner_place, entry[0]): entry for entry in entries} for entries in (before, after))
            nothing = ("", ABSENT, ABSENT)
            pairs = {place: (old.get(place, nothing), new.get(place, nothing)) for place in (*old, *new)}
            changes += [
                place
                for place, (earlier, later) in pairs.items()
                if earlier[1] is not later[1] or earlier[2] is not later[2]
            ]
            orders = [
                [place for place in entries if place in old and place in new and place != moved]
                for entries in (old, new)
            ]
            if orders[0] != orders[1]:
                changes.append(f"order of {owner_place}")
        return changes


def is_mapping(owner: object) -> bool:
    """Return True if an owner has entries by key. An ABC would become slower with each new class."""
    return hasattr(type(owner), "popitem")


def _is_same(before: tuple[str, Any, Any], after: tuple[str, Any, Any]) -> bool:
    return before[0] == after[0] and before[1] is after[1] and before[2] is after[2]


def _joined(place: str, step: str) -> str:
    return (place + step).removeprefix(".")


def _own_values(owner: Any, members: list[MemberDescriptorType]) -> Held:
    """Return all values that an owner holds itself; bypass the owner's own methods of access."""
    entries: Held = [(".__class__", "", type(owner))]
    # importlib drops _initializing from a spec when the import has ended.
    entries += [(f".{name}", name, v) for name, v in getattr(owner, "__dict__", {}).items() if name != "_initializing"]
    for member in members:
        try:
            entries.append((f".{member.__name__}", "", member.__get__(owner)))
        except AttributeError:
            continue
    if type(owner) is FunctionType:
        entries += [(f".{name}", "", getattr(owner, name)) for name in FUNCTION]
    elif type(owner) is list:
        entries += [(f"[{index}]", "", value) for index, value in enumerate(owner)]
    elif is_mapping(owner):
        kind = next((kind for kind in (OrderedDict, dict) if isinstance(owner, kind)), type(owner))
        entries += [(f"[{key!r}]", key, value) for key, value in kind.items(owner)]
    return entries
