"""Who holds an object: every name, entry, default and closure variable that is bound to it.

Asked of the garbage collector, which knows who refers to what. So nothing is looked up by name, no lazy module wakes,
and no property runs. A local variable of a running function is not to be seen that way.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._function_slot import FunctionSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._part_slot import PartialSlot, PartSlot
from hookpatch._referrers import DEPTH, Referrers, classes
from hookpatch._slot import Slot, along_mro, inner, mro
from hookpatch._target import a_kind, describe

_RUNNING: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_lru_cached: Final = lru_cache(lambda: None)  # has the function in __wrapped__ too, but calls what it keeps itself


@final
@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """One place that holds an object.

    Attributes:
        thing: the object.
        holder: what refers to it.
        slot: the place, None for one that cannot be set.
        words: the place in words.
        root: the module in which the way to it begins, None when no name leads there.
    """

    thing: Any
    holder: Any
    slot: Slot | None
    words: str
    root: str | None


def holders(things: Sequence[Any]) -> list[Holder]:
    """Return who holds these objects, hookpatch itself left out.

    Takes one pass of the garbage collector over all objects for each step between a holder and a name, at most four.

    Args:
        things: the objects; each has to be one that is not held by chance, as a small number is.
    """
    referrers = Referrers(things)
    try:
        return _Search(things, referrers).found
    finally:
        referrers.forget()


@final
class _Search:
    """The places that hold some objects, and how they are reached by name. Lives as long as the call."""

    def __init__(self, things: Sequence[Any], referrers: Referrers) -> None:
        self._referrers: Final = referrers
        self.found: list[Holder] = []
        for thing in things:
            places: dict[Any, Holder] = {}
            for holder in referrers.of(thing):
                for slot, words, root in self._in(holder, thing, DEPTH):
                    places[slot.key if slot else words] = Holder(thing, holder, slot, words, root)
            self.found += places.values()

    def _places(self, thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        """Yield the places that hold an object: slot, words, root."""
        for holder in self._referrers.of(thing):
            yield from self._in(holder, thing, depth)

    def _in(self, holder: Any, thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        kind = type(holder)  # isinstance asks for __class__ too, which wakes a lazy proxy
        if (there := self._referrers.module_of(holder)) is not None:
            module, owner = there
            for name in _keys(holder, thing):
                yield AttributeSlot(owner, name), f"{module}:{name}", module
        elif (cls := self._referrers.class_of(holder)) is not None:
            for name in _keys(holder, thing):
                yield AttributeSlot(cls, name), f"{describe(cls)}.{name}", cls.__module__
        elif issubclass(kind, dict):
            yield from self._in_dict(holder, thing, depth)
        elif issubclass(kind, (list, deque)):
            words, root = self._name(holder, depth)
            for at, held in enumerate(holder):
                if held is thing:
                    yield ItemSlot(holder, at), f"{words}[{at}]", root
        elif issubclass(kind, type):
            if isinstance(thing, type):
                yield None, f"{describe(holder)} (a subclass)", holder.__module__
        elif kind is CellType:
            yield from self._in_cell(holder)
        elif kind is partial:
            words, root = self._name(holder, depth)
            for side in PartialSlot.parts(holder, thing):
                yield PartialSlot(holder, side), f"{words}.{side}", root
        elif kind is FunctionType:
            if holder.__defaults__ is thing:
                yield AttributeSlot(holder, "__defaults__"), f"the defaults of {describe(holder)}", holder.__module__
        elif (parts := PartSlot.parts(holder, thing)) and depth:
            for outer, words, root in self._places(holder, depth - 1):
                for part in parts:
                    inside = words if isinstance(outer, AttributeSlot) and outer.name == "__defaults__" else None
                    yield outer and PartSlot(outer, part), inside or f"{words}{PartSlot.words(holder, part)}", root
        elif not issubclass(kind, tuple):
            yield from self._in_object(holder, thing, depth)

    def _in_dict(self, holder: dict[Any, Any], thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        for owner in self._referrers.of(holder):
            if type(owner).__module__ == "typing" or _annotations(owner) is holder or _is_of_graph(owner):
                return
        words, root = self._name(holder, depth)
        is_attributes = words.endswith(".__dict__")
        for key in _keys(holder, thing):
            named = f"{words.removesuffix('__dict__')}{key}" if is_attributes else f"{words}[{_written(key)}]"
            yield ItemSlot(holder, key), named, root
        if root is not None and any(key is thing for key in list(holder)):
            yield None, f"a key of {words}", root

    def _in_cell(self, cell: CellType) -> Iterator[tuple[Slot | None, str, str | None]]:
        for closure in self._referrers.of(cell):
            for function in self._referrers.of(closure):
                if type(function) is FunctionType and function.__closure__ is closure:
                    (at,) = PartSlot.parts(closure, cell)
                    name = function.__code__.co_freevars[at]
                    if name != "__class__":  # what super() looks at
                        words = f"the closure variable '{name}' of {describe(function)}"
                        yield AttributeSlot(cell, "cell_contents"), words, function.__module__
                    return

    def _in_object(self, holder: Any, thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        if _is_of_graph(holder):
            return
        words, root = self._name(holder, depth)
        is_found = False
        for base in mro(type(holder)):
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType) and AttributeSlot(holder, name).read() is thing:
                    is_found = True
                    yield AttributeSlot(holder, name), f"{words}.{name}", root
        attributes = along_mro(type(holder), "__dict__")
        if isinstance(attributes, types.GetSetDescriptorType):
            for name in _keys(attributes.__get__(holder), thing):
                is_found = True
                yield ItemSlot(attributes.__get__(holder), name), f"{words}.{name}", root
        if type(holder) in _RUNNING:
            yield None, f"a local variable of {holder.__qualname__}", root
        elif root is not None and (type(holder) is type(_lru_cached) or not (is_found or _is_instance(holder, thing))):
            yield None, f"{words} ({a_kind(holder)})", root  # without a name there is nothing to tell

    def _name(self, holder: Any, depth: int) -> tuple[str, str | None]:
        """Return how a holder is reached by name, and from which module."""
        if type(holder) is FunctionType:
            return describe(holder), holder.__module__
        for owner in self._referrers.of(holder):
            if type(owner) is FunctionType and owner.__kwdefaults__ is holder:
                return f"the defaults of {describe(owner)}", owner.__module__
            if type(owner) is partial and owner.keywords is holder:
                words, root = self._name(owner, depth - 1)
                return f"{words}.keywords", root
            if type(owner) is FunctionType and vars(owner) is holder:
                return f"{describe(owner)}.__dict__", owner.__module__
            if not issubclass(type(owner), (type, ModuleType)) and _attributes(owner) is holder:
                words, root = self._name(owner, depth - 1)
                return f"{words}.__dict__", root
        if depth > 0:
            for slot, words, root in self._places(holder, depth - 1):
                if slot is not None and root is not None:
                    return words, root
        return a_kind(holder), None


def _written(key: Any) -> str:
    """Return how a key is written; its own repr may be foreign code."""
    return repr(key) if type(key) in (str, bytes, int, float, bool, type(None)) else describe(key)


def _is_instance(holder: Any, thing: Any) -> bool:
    """Tell whether something refers to a class because it is one of its kind."""
    return issubclass(type(thing), type) and issubclass(type(holder), thing)


def _attributes(thing: Any) -> Any:
    found = along_mro(type(thing), "__dict__")
    return found.__get__(thing) if isinstance(found, types.GetSetDescriptorType) else None


def _annotations(thing: Any) -> Any:
    """Return the annotations of a function, or those that lie in the dict of a class or module."""
    if type(thing) is FunctionType:
        return thing.__annotations__
    return dict.get(thing, "__annotations__") if issubclass(type(thing), dict) else None


def _keys(mapping: dict[Any, Any], thing: Any) -> list[Any]:
    return [key for key, held in list(dict.items(mapping)) if held is thing]


def classes_of(slot: Slot) -> list[type]:
    """Return the classes in which a slot is: of a function's code all that hold the function under some name."""
    if isinstance(slot, FunctionSlot):
        return [cls for cls in classes() if any(inner(held) is slot.owner for held in list(vars(cls).values()))]
    return [] if slot.in_class is None else [slot.in_class]


def _is_of_graph(thing: Any) -> bool:
    """Tell whether something is of a graph of torch.fx, or the code made of one: it keeps what was captured."""
    if type(thing) is FunctionType:
        return thing.__code__.co_filename.startswith("<eval_with_key>")
    return type(thing).__module__ == "torch.fx.node"
