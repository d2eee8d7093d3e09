"""Who holds an object: every name, entry, default and closure variable that is bound to it.

Asked of the garbage collector, which knows who refers to what. So nothing is looked up by name, no lazy module wakes,
and no property runs. A local variable of a running function is not to be seen that way.
"""

from __future__ import annotations

import gc
import os
import types
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import is_not
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._beneath import originals
from hookpatch._function_slot import FunctionSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._part_slot import PartialSlot, PartSlot
from hookpatch._slot import Slot, along_mro, inner
from hookpatch._target import a_kind, describe
from hookpatch._trampoline import Trampoline, is_trampoline

_HERE: Final = os.path.dirname(__file__) + os.sep
_DEPTH: Final = 4  # as in m:REGISTRY['a'][0][1]: how far away from a name a holder may be to be named
_CROWD: Final = 500  # more nameless holders than these are not followed to names
_MANY: Final = 16  # from so many on it is faster to look at the references of all objects ourselves
_STEP: Final = 64  # objects that are looked at together

# What belongs to a class or to the type system and is not a name that somebody bound.
_BELONGS: Final = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
    types.FrameType,
    types.TracebackType,
    types.GenericAlias,
    types.UnionType,
    super,
)

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
    search = _Search(things)
    found = search.found
    vars(search).clear()  # it refers to itself: until garbage is collected the next look would find what it kept
    return found


@final
class _Search:
    """One look at all objects. Lives as long as the call."""

    def __init__(self, things: Sequence[Any]) -> None:
        self._mine: set[int] = {id(things), id(originals)}  # what refers to them because of us
        self._mine.add(id(_imports.loaded("_asyncio")))  # never to be asked for its references: see _objects
        self._kept: list[Any] = [things]  # so that no number in _mine is given to another object
        self._mine.add(id(self._kept))
        self._modules = self._keep({id(vars(module)): (name, module) for name, module in _imports.modules()})
        self._classes: dict[int, type] | None = None
        self._mine |= set(map(id, self._keep(Trampoline.links())))
        for thing in things:
            if issubclass(type(thing), type):  # the tuples in which a class and its subclasses keep their bases
                subclasses = self._keep([*classes(thing)])
                self._mine |= {id(one) for cls in subclasses for one in (cls.__mro__, cls.__bases__)}
        self._referrers: dict[int, list[Any]] = {}
        self._mine.add(id(self._referrers))
        self._look_up(things)
        self.found: list[Holder] = []
        for thing in things:
            places: dict[Any, Holder] = {}
            for holder in self._referrers.get(id(thing), ()):
                for slot, words, root in self._in(holder, thing, _DEPTH):
                    places[slot.key if slot else words] = Holder(thing, holder, slot, words, root)
            self.found += places.values()

    def _look_up(self, things: Iterable[Any]) -> None:
        """Note who refers to the objects, who refers to those, and so on."""
        level = self._keep({id(thing): thing for thing in things})
        for depth in range(_DEPTH):
            referrers = self._keep(_referrers(level))
            if depth == 0 and gc.get_freeze_count():
                referrers += self._frozen()  # which the collector leaves out
            for referrer in referrers:
                if id(referrer) in self._mine or _is_ours(referrer) or issubclass(type(referrer), _BELONGS):
                    continue
                for at in level.keys() & map(id, gc.get_referents(referrer)):
                    self._of(level[at]).append(referrer)
            upwards = self._keep({})
            for thing in level.values():
                found = self._referrers.get(id(thing), ())
                if depth == 0 or not any(map(self._is_named, found)):  # one name is enough
                    upwards |= {id(one): one for one in found if not self._is_named(one)}
            level = self._keep({at: thing for at, thing in upwards.items() if at not in self._referrers})
            if not level or len(level) > _CROWD:
                break

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        self._mine.add(id(made))
        return made

    def _of(self, thing: Any) -> list[Any]:
        if id(thing) not in self._referrers:
            self._referrers[id(thing)] = self._keep([])
        return self._referrers[id(thing)]

    def _frozen(self) -> list[Any]:
        return [
            *(vars(module) for _, module in _imports.modules()),
            *(gc.get_referents(vars(cls))[0] for cls in classes()),
        ]

    def _is_named(self, holder: Any) -> bool:
        return (
            id(holder) in self._modules
            or issubclass(type(holder), (ModuleType, type))
            or self._class_of(holder) is not None
        )

    def _class_of(self, holder: Any) -> type | None:
        """Return the class whose attributes a dict holds."""
        if type(holder) is not dict:
            return None
        if self._classes is None:  # looked up when the first dict is met that is no module's
            self._classes = self._keep({id(gc.get_referents(vars(cls))[0]): cls for cls in classes()})
        return self._classes.get(id(holder))

    def _places(self, thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        """Yield the places that hold an object: slot, words, root."""
        for holder in self._referrers.get(id(thing), ()):
            yield from self._in(holder, thing, depth)

    def _in(self, holder: Any, thing: Any, depth: int) -> Iterator[tuple[Slot | None, str, str | None]]:
        kind = type(holder)  # isinstance asks for __class__ too, which wakes a lazy proxy
        if id(holder) in self._modules:
            module, owner = self._modules[id(holder)]
            for name in _keys(holder, thing):
                yield AttributeSlot(owner, name), f"{module}:{name}", module
        elif (cls := self._class_of(holder)) is not None:
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
        for owner in self._referrers.get(id(holder), ()):
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
        for closure in self._referrers.get(id(cell), ()):
            for function in self._referrers.get(id(closure), ()):
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
        for base in type.__dict__["__mro__"].__get__(type(holder)):
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
        for owner in self._referrers.get(id(holder), ()):
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


def _referrers(things: dict[int, Any]) -> list[Any]:
    """Return what refers to objects that are given by their numbers."""
    if len(things) < _MANY:
        return gc.get_referrers(*things.values())
    # The collector compares each reference with each of them. So the other way round, in steps that C does whole.
    objects, found, has_none, referents = _objects(), [], set(things).isdisjoint, gc.get_referents
    for start in range(0, len(objects), _STEP):
        step = objects[start : start + _STEP]
        if not has_none(map(id, referents(*step))):
            found += [one for one in step if not has_none(map(id, referents(one)))]
    return found


def _objects() -> list[Any]:
    """Return all objects but the module ``_asyncio``: what it holds is in its dict.

    From Python 3.12 on it shows the collector iterators that have died; a reference to one has it die twice, and the
    next look at the module does not end.
    """
    return list(filter(partial(is_not, _imports.loaded("_asyncio")), gc.get_objects()))


def _annotations(thing: Any) -> Any:
    """Return the annotations of a function, or those that lie in the dict of a class or module."""
    if type(thing) is FunctionType:
        return thing.__annotations__
    return dict.get(thing, "__annotations__") if issubclass(type(thing), dict) else None


def _keys(mapping: dict[Any, Any], thing: Any) -> list[Any]:
    return [key for key, held in list(dict.items(mapping)) if held is thing]


def classes(top: type = object) -> Iterator[type]:
    """Yield a class and all its subclasses, every class there is for ``object``."""
    seen: set[type] = {top}
    waiting: list[type] = [top]
    while waiting:
        cls = waiting.pop()
        yield cls
        new: set[type] = set(type.__subclasses__(cls)) - seen
        seen |= new
        waiting += new


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


def _is_ours(thing: Any) -> bool:
    """Tell whether something is a part of hookpatch, or a function that it made."""
    if type(thing) is FunctionType:
        return is_trampoline(thing) or thing.__code__.co_filename.startswith(_HERE)
    is_module = type(thing) is dict and thing.get("__spec__") is not None
    module = dict.get(thing, "__name__") if is_module else type(thing).__module__
    return isinstance(module, str) and module.partition(".")[0] == "hookpatch"
