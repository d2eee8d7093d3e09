"""Find all holders of an object: every name, entry, default and closure variable bound to the object.

The garbage collector knows all references. So no name is looked up, no lazy module is imported and no property runs. A
local variable of a running function is not found.

Long because each kind of holder has words of its own.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, compress, repeat
from operator import is_
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias, final
from weakref import WeakMethod, getweakrefs

from hookpatch._bootstrap.interrupts import Turn
from hookpatch._engine.calls.annotations import evaluated_annotations
from hookpatch._engine.patch.describe import a_kind, describe, describe_key
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import patched_slots
from hookpatch._engine.slots.part import PartialSlot, PartSlot
from hookpatch._engine.slots.referrers import DEPTH, Referrers, classes, entries_beneath, module_of
from hookpatch._engine.slots.slot import ABSENT, Slot, attributes_of, inner, mro

_Place: TypeAlias = tuple[Slot | None, str, str | None]  # slot, words, root: see Holder

RUNNING: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_lru_cached: Final = lru_cache(lambda: None)  # calls the function by a reference of its own, not by __wrapped__
_MOST: Final = 100_000  # steps to the names of one object; after these only the kinds of holders are told
_searching: Final = Turn()  # two searches at once would find, and follow, the lists of each other


@final
@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """One place that holds an object."""

    thing: Any
    holder: Any  # the object that refers to `thing`
    slot: Slot | None  # None if the place cannot be set
    words: str  # the place in words
    root: str | None  # the module from which the place is reached, None for a place without a name

    @property
    def is_nameless(self) -> bool:
        """True if the words name the kind of the holder alone: ``a Model.callbacks[0]``, ``a map``."""
        return self.root is None and self.holder is not None and type(self.holder) not in RUNNING


def holders(referents: Sequence[Any], every: bool = False) -> list[Holder]:
    """Return the holders of some objects, without hookpatch itself. A small number has many holders by chance.

    Takes one pass of the garbage collector for each step between a holder and a name, at most four.

    Args:
        referents: the objects.
        every: also holders of which only the kind is known, and references that the collector does not list.
    """
    with _searching:
        return _holders(referents, every)


def _holders(referents: Sequence[Any], every: bool) -> list[Holder]:
    weak = [entry for referent in referents for entry in getweakrefs(referent)]
    referrers = Referrers(referents, weak, counts=every)
    places_found: list[Holder] = []
    try:
        search = _Search(referrers)
        places: dict[Any, Holder] = {}  # the collector names some holders twice
        for entry, weakly_held in [(entry, referent) for referent in referents for entry in getweakrefs(referent)]:
            for holder in referrers.referrers_of(entry):
                for words, module in search.weak_places(holder, entry):
                    places[id(entry), words] = Holder(weakly_held, holder, None, f"{words} (a weak reference)", module)
        places_found += places.values()
        for referent in referents:
            places, search.steps = {}, 0
            for holder in referrers.referrers_of(referent):
                found = [*search.places_in(holder, referent, DEPTH)]
                if every and not found and search.is_of_other_kind(holder, referent):
                    found = [(None, a_kind(holder), None)]
                if every and not any(root for _, _, root in found) and referrers.is_of_hookpatch(holder):
                    continue
                for slot, words, root in found:
                    key = slot.key if slot else (words, root or id(holder))
                    places[key] = Holder(referent, holder, slot, words, root)
            places_found += places.values()
            if every and (count := referrers.unlisted.get(id(referent), 0)):
                words = f"C code or a running function ({count} reference{'s' * (count > 1)})"
                places_found.append(Holder(referent, None, None, words, None))
    finally:
        referrers.forget()
    return places_found


@final
class _Search:
    """A search for places and their names, ``depth`` references upwards. Lives as long as one call of ``holders``."""

    def __init__(self, referrers: Referrers) -> None:
        self._referrers: Final = referrers
        # By id, the names of modules and classes that hold an object beneath a patch: no reference shows these.
        self._patched: Final = {
            id(patched.original): name
            for patched in patched_slots()
            if (name := _name_of(patched.slot)) is not None and patched.original is not ABSENT
        }
        # The same for patched entries and attributes of objects; the owner of some has no name.
        self._entries: Final = entries_beneath()
        self.steps = 0  # to the names of the present object
        self._names: Final[dict[tuple[int, int], tuple[str, str | None]]] = {}  # by id of a holder, and depth

    def _places(self, referent: Any, depth: int) -> Iterator[_Place]:
        """Yield the places of an object, first those that have a name."""
        referrers = self._referrers.referrers_of(referent)
        self.steps += len(referrers)
        if self.steps > _MOST:
            return
        for holder in sorted(referrers, key=lambda referrer: self._referrers.named_by(referrer) is None):
            yield from self.places_in(holder, referent, depth)

    def weak_places(self, holder: Any, entry: Any) -> Iterator[tuple[str, str]]:
        """Yield the named places of a weak reference, except keys: no code calls the key of a mapping."""
        if type(holder) is dict and any(key is entry for key in list(holder)):
            return
        if type(holder) is WeakMethod:  # the WeakMethod holds the weak reference to the function
            for outer in self._referrers.referrers_of(holder):
                yield from self.weak_places(outer, holder)
            return
        for _, words, root in self.places_in(holder, entry, DEPTH):
            if root is not None and root.partition(".")[0] != "hookpatch":
                yield words, root

    def places_in(self, holder: Any, referent: Any, depth: int) -> Iterator[_Place]:
        """Yield the places of an object in one holder."""
        kind = type(holder)  # isinstance reads __class__, which makes a lazy proxy load its object
        if (named := self._referrers.named_by(holder)) is not None:
            owner, module = named
            for name in _keys(holder, referent):
                words = f"{module}:{name}" if module else f"{describe(owner)}.{name}"
                yield AttributeSlot(owner, name), words, module or module_of(owner)
        elif issubclass(kind, (dict, list, deque)):
            yield from (self._in_dict if issubclass(kind, dict) else self._in_list)(holder, referent, depth)
            if kind not in (dict, list, deque):  # defaultdict.default_factory, and __slots__
                yield from _in_members(holder, referent, *self._name(holder, depth))
        elif issubclass(kind, type):
            if isinstance(referent, type):
                yield None, f"{describe(holder)} (a subclass)", module_of(holder)
        elif kind is CellType:
            yield from self._in_cell(holder)
        elif kind is partial:
            words, root = self._name(holder, depth)
            for side in PartialSlot.parts(holder, referent):
                yield PartialSlot(holder, side), f"{words}.{side}", root
        elif kind is FunctionType:
            if holder.__defaults__ is referent:
                yield AttributeSlot(holder, "__defaults__"), f"the defaults of {describe(holder)}", module_of(holder)
        elif (parts := PartSlot.parts(holder, referent)) and depth:
            if (patched_name := self._name_beneath(holder, depth)) is not None:
                for part in parts:
                    yield None, f"{patched_name[0]}{PartSlot.words(holder, part)}", patched_name[1]
            for outer, words, root in self._places(holder, depth - 1):
                if patched_name is not None and root is None:
                    continue  # a table of hookpatch's
                for part in parts:
                    inside = words if isinstance(outer, AttributeSlot) and outer.name == "__defaults__" else None
                    yield outer and PartSlot(outer, part), inside or f"{words}{PartSlot.words(holder, part)}", root
        elif issubclass(kind, ModuleType) and type(referent) is FunctionType:  # not by a name: a callback
            yield None, f"C code of {holder.__name__}", holder.__name__
        elif kind is not tuple:
            yield from self._in_object(holder, referent, depth)

    def is_of_other_kind(self, holder: Any, referent: Any) -> bool:
        """Return True if code that finds a holder may call what the holder holds: an iterator, a tuple, a queue."""
        kind = type(holder)
        is_looked_up = issubclass(kind, (dict, type, ModuleType)) or kind in (CellType, FunctionType)
        return not (is_looked_up or _is_instance(holder, referent) or _is_of_graph(holder))

    def _in_dict(self, holder: dict[Any, Any], referent: Any, depth: int) -> Iterator[_Place]:
        for owner in self._referrers.referrers_of(holder):
            if type(owner).__module__ == "typing" or _is_of_annotations(owner, holder) or _is_of_graph(owner):
                return
        words, root = self._name(holder, depth)
        is_attributes = words.endswith(".__dict__")
        # The dict of a function changed in place is exchanged when the patch comes and ends.
        owners = self._referrers.referrers_of(holder)
        function = next((owner for owner in owners if type(owner) is FunctionType and vars(owner) is holder), None)
        for key in _keys(holder, referent):
            named = f"{words.removesuffix('__dict__')}{key}" if is_attributes else f"{words}[{describe_key(key)}]"
            yield ItemSlot(holder, key) if function is None else AttributeSlot(function, key), named, root
        if root is not None and any(key is referent for key in list(holder)):
            yield None, f"a key of {words}", root

    def _in_list(self, holder: MutableSequence[Any], referent: Any, depth: int) -> Iterator[_Place]:
        words, root = self._name(holder, depth)
        for index, element in enumerate(list(holder)):
            if element is referent:
                yield ItemSlot(holder, index), f"{words}[{index}]", root

    def _in_cell(self, cell: CellType) -> Iterator[_Place]:
        for closure in self._referrers.referrers_of(cell):
            for function in self._referrers.referrers_of(closure):
                if type(function) is FunctionType and function.__closure__ is closure:
                    (index,) = PartSlot.parts(closure, cell)
                    name = function.__code__.co_freevars[index]
                    if name != "__class__":  # the cell of super()
                        words = f"the closure variable '{name}' of {describe(function)}"
                        yield AttributeSlot(cell, "cell_contents"), words, module_of(function)
                    return

    def _in_object(self, holder: Any, referent: Any, depth: int) -> Iterator[_Place]:
        if _is_of_graph(holder):
            return
        words, root = self._name(holder, depth)
        yield from (members := [*_in_members(holder, referent, words, root)])
        is_found = bool(members)
        if (attributes := attributes_of(holder)) is not None:
            for name in _keys(attributes, referent):
                is_found = True
                yield ItemSlot(attributes, name), f"{words}.{name}", root
        if type(holder) in RUNNING:
            yield None, f"a local variable of {holder.__qualname__}", root
        elif root is not None and (
            type(holder) is type(_lru_cached) or not (is_found or _is_instance(holder, referent))
        ):
            yield None, f"{words} ({a_kind(holder)})", root  # a holder without a name would say nothing to the user

    def _name(self, holder: Any, depth: int) -> tuple[str, str | None]:
        """Return words that name a holder, and its module. Searched once: the ways to a name multiply at each step."""
        if (name := self._names.get((id(holder), depth))) is None:
            name = self._names[id(holder), depth] = self._searched_name(holder, depth)
        return name

    def _searched_name(self, holder: Any, depth: int) -> tuple[str, str | None]:
        if type(holder) is FunctionType:
            return describe(holder), module_of(holder)
        if (patched_name := self._name_beneath(holder, depth)) is not None:
            return patched_name
        for owner in self._referrers.referrers_of(holder):
            if type(owner) is FunctionType and owner.__kwdefaults__ is holder:
                return f"the defaults of {describe(owner)}", module_of(owner)
            if type(owner) is partial and owner.keywords is holder:
                words, root = self._name(owner, depth - 1)
                return f"{words}.keywords", root
            if type(owner) is FunctionType and vars(owner) is holder:
                return f"{describe(owner)}.__dict__", module_of(owner)
            is_object = owner is not holder and not issubclass(type(owner), (type, ModuleType))
            if is_object and attributes_of(owner) is holder:
                words, root = self._name(owner, depth)
                return f"{words}.__dict__", root
        if depth > 0:
            nameless = ""  # in an object without a name
            for slot, words, root in self._places(holder, depth - 1):
                if slot is not None and root is not None:
                    return words, root
                nameless = nameless or (words if slot is not None and "." in words else "")
            if nameless and issubclass(type(holder), (dict, list, deque, partial)):
                return nameless, None
        return a_kind(holder), None

    def _name_beneath(self, value: Any, depth: int) -> tuple[str, str | None] | None:
        """Return the name of a slot with a value beneath a patch, and the module; None for another value."""
        if (name := self._patched.get(id(value))) is not None or depth <= 0:
            return name
        for slot in self._entries.get(id(value), ()):
            words, root = self._name(slot.owner, depth - 1)
            if root is not None and isinstance(slot, ItemSlot):
                is_attributes = words.endswith(".__dict__")
                key = slot.index if is_attributes else f"[{describe_key(slot.index)}]"
                return f"{words.removesuffix('__dict__') if is_attributes else words}{key}", root
            if root is not None:
                return f"{words}.{slot.name}", root
        return None


def _in_members(holder: Any, referent: Any, words: str, root: str | None) -> Iterator[_Place]:
    for base in mro(type(holder)):
        for name, member in vars(base).copy().items():
            if isinstance(member, types.MemberDescriptorType) and AttributeSlot(holder, name).read() is referent:
                yield AttributeSlot(holder, name), f"{words}.{name}", root


def _name_of(slot: Slot) -> tuple[str, str | None] | None:
    """Return the name of a slot of a module or class, and the module; None for another slot."""
    if not isinstance(slot, AttributeSlot) or not issubclass(type(slot.owner), (ModuleType, type)):
        return None
    return str(slot), slot.owner.__name__ if issubclass(type(slot.owner), ModuleType) else module_of(slot.owner)


def _is_instance(holder: Any, referent: Any) -> bool:
    return issubclass(type(referent), type) and issubclass(type(holder), referent)


def _is_of_annotations(owner: Any, holder: dict[Any, Any]) -> bool:
    """Return True if a dict holds the annotations of its owner: a function, or the dict of a class or module."""
    if type(owner) is FunctionType:
        return evaluated_annotations(owner) is holder
    names = ("__annotations__", "__annotations_cache__")  # the second of a class, from Python 3.14 on
    return issubclass(type(owner), dict) and any(dict.get(owner, name) is holder for name in names)


def _keys(mapping: dict[Any, Any], referent: Any) -> list[Any]:
    # GIL: C code begins and ends both iterators, so no other thread changes the mapping meanwhile.
    # A tuple for each item would make the collector run.
    keys, values = chain.from_iterable((dict.keys(mapping),)), chain.from_iterable((dict.values(mapping),))
    return [*compress(keys, map(is_, values, repeat(referent)))]


def classes_of(slot: Slot) -> list[type]:
    """Return the classes of a slot: for a function's code all classes that hold the function under a name."""
    if isinstance(slot, FunctionSlot):
        return [cls for cls in classes() if any(inner(value) is slot.owner for value in list(vars(cls).values()))]
    return [] if slot.in_class is None else [slot.in_class]


def _is_of_graph(holder: Any) -> bool:
    """Return True for a node of a torch.fx graph, or for code made from a graph: captured functions stay captured."""
    if type(holder) is FunctionType:
        return holder.__code__.co_filename.startswith("<eval_with_key>")
    return type(holder).__module__ == "torch.fx.node"
