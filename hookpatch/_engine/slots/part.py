"""A part of an object as a slot: an element of a tuple, the function of a bound method or partial, an object's class.

A tuple or method cannot be changed in place, so the slot that holds the whole gets a changed copy. At the end the
identical original whole is restored. A functools.partial is changed in place by its own __setstate__, an object's class
by ``object.__class__``.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import is_
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, Literal, TypeAlias, cast, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap.interrupts import Turn, is_interrupt
from hookpatch._engine.calls.code import LRU_CACHE
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.originals import patched_slots
from hookpatch._engine.slots.referrers import all_but_tuples
from hookpatch._engine.slots.slot import ABSENT, OwnValueSlot, Shared, Slot, attributes_of, inner, mro

_Parts: TypeAlias = tuple[Any, ...]
_Side: TypeAlias = Literal["func", "args"]
_SIDES: Final[tuple[_Side, ...]] = ("func", "args")

# By kind: the function that lists the parts; the function that makes a whole from a former whole and new parts; the
# spelling of each part. A made method keeps its object, and a made property its documentation.
_KINDS: Final[dict[type, tuple[Callable[[Any], _Parts], Callable[[Any, _Parts], Any], tuple[str, ...]]]] = {
    tuple: (tuple, lambda whole, parts: parts, ()),
    MethodType: (lambda whole: (whole.__func__,), lambda whole, parts: MethodType(parts[0], whole.__self__), ("",)),
    staticmethod: (lambda whole: (whole.__func__,), lambda whole, parts: staticmethod(parts[0]), ("",)),
    classmethod: (lambda whole: (whole.__func__,), lambda whole, parts: classmethod(parts[0]), ("",)),
    property: (
        lambda whole: (whole.fget, whole.fset, whole.fdel),
        lambda whole, parts: property(parts[0], parts[1], parts[2], whole.__doc__),
        (".fget", ".fset", ".fdel"),
    ),
}


@final
class _Whole:
    """The original whole of a slot. Lives while a part of the whole is patched."""

    def __init__(self, value: Any) -> None:
        self.lock: Final = Turn()  # shared by the parts: each write copies the other parts
        self.value: Final = value


_WHOLES: Final[Shared[_Whole]] = Shared()  # by the key of the slot


@final
class PartSlot(OwnValueSlot):
    """A part of a tuple, bound method, static or class method or property in another slot.

    Attributes:
        owner: the slot that holds the whole.
        index: the number of the part, as ``parts`` returns.
    """

    __slots__ = ("_original", "index", "key", "owner")

    def __init__(self, owner: Slot, index: int) -> None:
        self.owner: Final = owner
        self.index: Final = index
        self.key: Final[tuple[Any, ...]] = ("part", index, *owner.key)
        self._original: _Whole | None = None

    @staticmethod
    def parts(whole: Any, referent: object) -> list[int]:
        """Return the numbers of the parts that are an object, an empty list for an object without parts."""
        if type(whole) not in _KINDS:
            return []
        return [index for index, part in enumerate(_KINDS[type(whole)][0](whole)) if part is referent]

    @staticmethod
    def words(whole: Any, index: int) -> str:
        """Return the suffix that names a part in messages."""
        names = _KINDS[type(whole)][2]
        return names[index] if names else f"[{index}]"

    def read(self) -> Any:
        """Return the part, or ABSENT if the slot now holds another kind of object."""
        whole = self.owner.read()
        parts = _KINDS[type(whole)][0](whole) if type(whole) in _KINDS else ()
        return parts[self.index] if self.index < len(parts) else ABSENT

    def write(self, value: Any) -> None:
        """Write a changed copy of the whole, or the original whole once all parts are the original parts."""
        original = self._original = self._original or _WHOLES.get(self.owner.key, lambda: _Whole(self.owner.read()))
        with original.lock:
            whole = self.owner.read()
            parts_of, whole_of, _ = _KINDS[type(whole)]
            parts = parts_of(whole)
            parts = (*parts[: self.index], value, *parts[self.index + 1 :])
            original_parts = parts_of(original.value)
            if len(parts) == len(original_parts) and all(map(is_, parts, original_parts)):
                self.owner.write(original.value)
                self._original = None
            else:
                self.owner.write(whole_of(whole, parts))

    def __str__(self) -> str:
        return f"{self.owner}[{self.index}]"


@final
class PartialSlot(OwnValueSlot):
    """The function of a functools.partial, or the tuple of its positional arguments."""

    __slots__ = ("key", "owner", "side")

    def __init__(self, owner: partial[Any], side: _Side) -> None:
        self.owner: Final = owner
        self.side: Final = side
        self.key: Final[tuple[Any, ...]] = ("partial", id(owner), side)

    @staticmethod
    def parts(owner: partial[Any], referent: object) -> list[_Side]:
        """Return the sides that are an object."""
        return [side for side in _SIDES if getattr(owner, side) is referent]

    def read(self) -> Any:
        return getattr(self.owner, self.side)

    def write(self, value: Any) -> None:
        """Change the partial in place: its identity stays."""
        _, _, (function, arguments, keywords, attributes) = cast(tuple[Any, ...], self.owner.__reduce__())
        state = (value, arguments) if self.side == "func" else (function, value)
        self.owner.__setstate__((*state, keywords, attributes))  # type: ignore[attr-defined]  # typeshed has none

    def __str__(self) -> str:
        return f"{self.owner!r}.{self.side}"


@final
class ClassSlot(OwnValueSlot):
    """The class of the living instances of a class. The instances are held weakly.

    Attributes:
        changed: the number of instances with a foreign class when the other instances got a class.
    """

    __slots__ = ("_classes", "_members", "_stands", "changed", "key", "owner")

    def __init__(self, owner: type) -> None:
        self.owner: Final = owner
        self.key: Final[tuple[Any, ...]] = ("instances", id(owner))
        self._stands: Any = owner
        self._classes: Sequence[type] = (owner,)  # classes that hookpatch gave to the members
        self._members: Sequence[tuple[ReferenceType[Any], type]] = ()  # each with the former class
        self.changed = 0

    @staticmethod
    def living(*classes: Any) -> list[Any]:
        """Return the instances of classes, without those of subclasses."""
        ids = {*map(id, classes)}  # of living classes; a set of classes would call foreign code of their metaclasses
        return [instance for instance in all_but_tuples() if id(type(instance)) in ids]

    def read(self) -> Any:
        return self._stands

    def write(self, value: Any) -> None:
        """Give the instances a class; for the owner restore each instance's former class.

        The living instances at the first write become members. A member with a foreign class is left alone.

        Raises:
            TypeError: instances cannot have the class, or cannot be held weakly; they have the class from before.
        """
        members, classes = self._members, self._classes
        if all(value is not cls for cls in classes):
            member_ids = {id(weak()) for weak, _ in members}
            living = [instance for instance in self.living(self.owner, self._stands) if id(instance) not in member_ids]
            came = [(ref(instance), type(instance)) for instance in living]
            self._members, self._classes = (*members, *came), (*classes, value)  # noted first: an interrupt may follow
        try:
            self._set_classes(value)
        except Exception as error:
            if value is not self.owner and not is_interrupt(error):
                self._set_classes(self._stands)
                self._members, self._classes = members, classes
            raise
        self._stands = value
        if value is self.owner:
            self._members, self._classes = (), (self.owner,)

    def _set_classes(self, value: Any) -> None:
        self.changed = 0
        for weak, home in self._members:
            instance, wanted = weak(), home if value is self.owner else value
            if instance is None or type(instance) is wanted:
                continue
            if any(type(instance) is cls for cls in self._classes):
                _class.__set__(instance, wanted)
            else:
                self.changed += 1

    def __str__(self) -> str:
        return f"the living instances of {describe(self.owner)}"


def own_places(change: Any) -> dict[tuple[Any, ...], Any]:
    """Return the objects that a wrapper, a factory or a patch's value keeps for itself, by the key of the slot.

    An object that nothing else refers to is looked into, such as a list of the value's own; no table of a library is.
    """
    places: dict[tuple[Any, ...], Any] = {}
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(inner(change), ())]
    ids: set[int] = set()
    while waiting and len(ids) < _MOST:
        holder, key = waiting.pop()
        ids.add(id(holder))
        kept = [*_kept_by(holder, key)]
        is_own = type(holder) in _ALWAYS_OWN or issubclass(type(holder), type)
        followed = [kept[place] for place in range(len(kept)) if is_own or _is_alone(kept, place)]
        waiting += [(value, at) for at, value in followed if not (id(value) in ids or issubclass(type(value), type))]
        if not is_own and "<locals>" in _qualname(type(holder)):  # a class that the factory has made
            waiting.append((type(holder), ()))
        places.update(kept)
    return places


def _outermost(slot: Slot) -> Slot:
    """Return the slot that holds the whole of a part."""
    while isinstance(slot, PartSlot):
        slot = slot.owner
    return slot


def _kept_by(holder: Any, key: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the key of each slot of an object with the value; ``key``: of the slot that holds the object.

    Each dict is copied in one operation: a list of items sets off the collector, and other threads run meanwhile.
    """
    kind, number = type(holder), id(holder)
    if kind in (str, bytes, int, float, ModuleType, type(None)):
        return
    if kind is FunctionType:
        for cell in holder.__closure__ or ():
            with suppress(ValueError):  # an empty cell
                yield ("attribute", id(cell), "cell_contents"), cell.cell_contents
        for index, value in enumerate(holder.__defaults__ or ()):
            yield ("part", index, "attribute", number, "__defaults__"), value
        for name, value in (holder.__kwdefaults__ or {}).copy().items():
            yield ("item", id(holder.__kwdefaults__), name), value
        for name, value in vars(holder).copy().items():  # __wrapped__, for example
            yield ("attribute", number, name), value
    elif issubclass(kind, type):
        for name, value in vars(holder).copy().items():
            yield ("attribute", number, name), value
    elif kind in _KINDS:
        for index, value in enumerate(_KINDS[kind][0](holder)):
            yield ("part", index, *key), value
        if kind is MethodType:
            yield ("object", number), holder.__self__
    elif kind is partial:
        yield ("partial", number, "func"), holder.func
        yield ("partial", number, "args"), holder.args
        for name, value in holder.keywords.copy().items():
            yield ("item", id(holder.keywords), name), value
    elif issubclass(kind, (list, deque, dict)):
        for name, value in dict.copy(holder).items() if issubclass(kind, dict) else enumerate(list(holder)):
            yield ("item", number, name), value
    else:
        for name, member in dict(item for base in mro(kind) for item in vars(base).copy().items()).items():
            if isinstance(member, MemberDescriptorType):
                with suppress(AttributeError):  # an unset name
                    yield ("attribute", number, name), member.__get__(holder)
        for name, value in (attributes := attributes_of(holder) or {}).copy().items():
            yield ("item", id(attributes), name), value


def _is_alone(kept: Sequence[tuple[Any, Any]], place: int) -> bool:
    """Return True if nothing refers to a kept value but its holder, and the slots of patched entries."""
    count = _count(kept, place) - _ALONE
    if count > 0 and type(kept[place][1]) in (list, deque, dict):
        owners = (_outermost(patched.slot).owner for patched in patched_slots())
        return count == sum(owner is kept[place][1] for owner in owners)
    return count == 0


def _count(kept: Sequence[tuple[Any, Any]], place: int) -> int:
    """Return the reference count of a kept value: asked here alone, since the way of asking counts, too."""
    return sys.getrefcount(kept[place][1])


_MOST: Final = 500  # objects
# An lru_cache refers to its function twice.
_ALWAYS_OWN: Final = (MethodType, staticmethod, classmethod, property, LRU_CACHE)
_qualname: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
_ALONE: Final = 1 + _count([(None, object())], 0)  # with one holder more than the list

_class: Final = vars(object)["__class__"]  # past a foreign __setattr__, or a property of this name
