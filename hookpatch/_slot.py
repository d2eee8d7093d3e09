"""One place of one owner; the only file that sets or deletes foreign attributes and items.

Reading a slot wakes nothing and makes nothing: no property runs, no defaultdict makes an entry, no lazy module imports.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, MutableMapping, MutableSequence
from functools import partial
from threading import RLock
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast, final
from weakref import WeakValueDictionary

from hookpatch._target import describe
from hookpatch._trampoline import Swap, as_it_was

T = TypeVar("T")


@final
class _Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

# Descriptors of values that an object keeps itself: of __slots__, or of the interpreter such as __defaults__.
KEPT: Final = (MemberDescriptorType, GetSetDescriptorType)


@final
class AttributeSlot:
    """An attribute of a module, class or instance.

    One that its owner hands on to something else by ``__setattr__`` and ``__delattr__`` of its own, as a proxy does, is
    treated as unittest.mock treats it: set; at the end deleted, and set to what was there if that is not there then.
    """

    __slots__ = ("_handed_on", "_member", "name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner: Final = owner
        self.name: Final = name
        self._handed_on: tuple[Any] | None = None  # what was there before, while something of ours is
        member = along_mro(type(owner), name)
        self._member: Final = member if isinstance(member, KEPT) and name != "__dict__" else None

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "attribute", id(self.owner), self.name

    @property
    def in_class(self) -> type | None:
        """The owner when it is a class, so that functions in it are methods."""
        return self.owner if isinstance(self.owner, type) else None

    def read(self) -> Any:
        """Return the owner's *own* value, never a bound or inherited one, or ABSENT."""
        if self._member is not None:
            try:
                return self._member.__get__(self.owner)
            except AttributeError:
                return ABSENT
        try:
            own = vars(self.owner).get(self.name, ABSENT)
        except TypeError:  # it has no __dict__
            own = ABSENT
        if own is not ABSENT or self._handed_on is None:
            return own
        now = self._fetched()
        return ABSENT if _alike(now, self._handed_on[0]) else now

    def inherited(self) -> Any:
        """Return what the owner has from elsewhere when it has nothing of its own, or ABSENT."""
        if self._handed_on is not None:
            return self._handed_on[0]
        if self.in_class is not None:
            return along_mro(self.in_class, self.name, past_owner=True)
        found = along_mro(type(self.owner), self.name)
        if found is ABSENT:
            return self._fetched()
        if found is self._member:
            return ABSENT  # a slot of __slots__ that nobody has set
        if hasattr(type(found), "__set__") or not hasattr(type(found), "__get__"):
            return found  # a property is not run
        return found.__get__(self.owner, type(self.owner))

    def _fetched(self) -> Any:
        """Return what the owner's ``__getattr__`` gives, or a ``__getattribute__`` of its own; or ABSENT."""
        kind = type(self.owner)
        fetch = along_mro(kind, "__getattr__")
        fetch = fetch.__get__(self.owner) if fetch is not ABSENT else None
        if isinstance(self.owner, ModuleType):
            fetch = vars(self.owner).get("__getattr__", fetch)  # PEP 562
        elif along_mro(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
            fetch = partial(getattr, self.owner)
        try:
            return fetch(self.name) if fetch is not None else ABSENT
        except AttributeError:
            return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there."""
        if self._handed_on is None and self.is_handed_on:
            self._handed_on = (self._fetched(),)
        setattr(self.owner, self.name, value)

    def delete(self) -> None:
        """Make it absent."""
        delattr(self.owner, self.name)
        if self._handed_on is not None:
            (before,), self._handed_on = self._handed_on, None
            if before is not ABSENT and not _alike(self._fetched(), before):
                setattr(self.owner, self.name, before)

    @property
    def is_handed_on(self) -> bool:
        """True when what is set here lands in something else, and nothing of that name is the owner's own."""
        if isinstance(self.owner, (ModuleType, type)) or self.read() is not ABSENT:
            return False
        is_own_setter = along_mro(type(self.owner), "__setattr__") is not vars(object)["__setattr__"]
        return is_own_setter and along_mro(type(self.owner), self.name) is ABSENT

    def __str__(self) -> str:
        mark = ":" if isinstance(self.owner, ModuleType) else "."
        return f"{describe(self.owner)}{mark}{self.name}"


@final
class ItemSlot:
    """An entry of a mapping or a list."""

    __slots__ = ("_removed", "index", "owner")

    def __init__(self, owner: MutableMapping[Any, Any] | MutableSequence[Any], index: Any) -> None:
        self.owner: Final[Any] = owner
        self.index: Final = index
        self._removed: tuple[_Order, Any] | None = None  # the order of before, and the very key that was there

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "item", id(self.owner), self.index

    @property
    def in_class(self) -> None:
        """None: what lies in a mapping or list is never a method."""
        return None

    def read(self) -> Any:
        """Return the value as it is kept, or ABSENT."""
        if isinstance(self.owner, MutableSequence):
            return self.owner[self.index] if self.index < len(self.owner) else ABSENT
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.index, ABSENT)  # one step, past __missing__
        if self.index not in self.owner:  # asked first: the owner may make one
            return ABSENT
        return self._raw("__getitem__")(self.index)

    def inherited(self) -> Any:
        """Return ABSENT: items are not inherited."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there; a key that was deleted goes back to its position."""
        if self._removed is None or self.index in self.owner:
            self._raw("__setitem__")(self.index, value)
            return
        (order, key), self._removed = self._removed, None
        with order.turn:
            self._raw("__setitem__")(key, value)
            order.move_back(self.owner, key)

    def delete(self) -> None:
        """Make it absent, and note where it was."""
        order = _Order.of(self.owner)
        with order.turn:
            self._removed = order, order.note(self.index)
            self._raw("__delitem__")(self.index)

    def forget(self) -> None:
        """Forget where a deleted key was: one that is put there now is another."""
        self._removed = None

    def _raw(self, method: str) -> Any:
        """Return a method that reaches what is kept: a dict's subclass may give out, and take, something else."""
        kind = next((kind for kind in (OrderedDict, dict) if isinstance(self.owner, kind)), type(self.owner))
        return getattr(kind, method).__get__(self.owner)

    def __str__(self) -> str:
        return f"{describe(self.owner)}[{self.index!r}]"


class _Order:
    """The order of a mapping's keys, those that were removed included. Lives while one of them is away."""

    _known: ClassVar[WeakValueDictionary[int, _Order]] = WeakValueDictionary()

    _lock: ClassVar = RLock()  # to look one up

    def __init__(self, owner: Any) -> None:
        self.turn: Final = RLock()  # of the slots in the mapping: each moves neighbours
        self._owner: Final = owner  # held: its id is the key under which this is known
        self._keys: list[Any] = []

    @classmethod
    def of(cls, owner: Any) -> _Order:
        """Return the order of a mapping, one for all slots in it."""
        with cls._lock:
            known = cls._known.get(id(owner))
            if known is None:
                known = cls._known[id(owner)] = cls(owner)
            return known

    def note(self, index: Any) -> Any:
        """Note all keys that are there now, the later ones behind; return the one that ``index`` is equal to."""
        self._keys += [key for key in list(self._owner) if key not in self._keys]
        return self._keys[self._keys.index(index)]

    def move_back(self, owner: Any, key: Any) -> None:
        """Move a key that was just added behind those that stood before it: a mapping has no other way to insert."""
        before = self._keys[: self._keys.index(key)]
        now = [other for other in list(owner) if other != key]
        at = max((place for place, other in enumerate(now, 1) if other in before), default=0)
        if isinstance(owner, dict) and not isinstance(owner, OrderedDict):
            # One step of the interpreter: no other thread finds a neighbour away, or sets one in between.
            dict.update(owner, zip(now[at:], map(partial(dict.pop, owner), now[at:]), strict=True))
            return
        for other in now[at:]:
            if isinstance(owner, OrderedDict):
                owner.move_to_end(other)
            else:
                owner[other] = owner.pop(other)


@final
class FunctionSlot:
    """The code of a Python function, for patches that hold wherever the function is bound: its identity stays."""

    __slots__ = ("_added", "_keyword_defaults", "_swap", "binds", "copy", "owner")

    def __init__(self, function: FunctionType, binds: bool) -> None:
        """Take a function.

        Args:
            function: the function.
            binds: True when its first argument is the object or class that it is called on.

        Attributes:
            copy: what ``copy_with`` returned last.
        """
        self.owner: Final = function
        self.binds: Final = binds
        self._swap: Swap | None = None
        self.copy: FunctionType | None = None
        self._keyword_defaults: dict[str, Any] | None = None
        self._added: set[str] = set()

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "function", id(self.owner)

    @property
    def in_class(self) -> None:
        """None: where the function is bound does not matter here."""
        return None

    def read(self) -> Any:
        """Return the Swap that is in force, else the function's code."""
        code = self.owner.__code__
        return self._swap if self._swap is not None and code is self._swap.code else code

    def inherited(self) -> Any:
        """Return ABSENT: a function always has code of its own."""
        return ABSENT

    def copy_with(self, code: CodeType) -> FunctionType:
        """Return a function that does what this one does with that code: the same one for the same code."""
        if self.copy is None or self.copy.__code__ is not code:
            self.copy = as_it_was(self.owner, code)
        return self.copy

    def write(self, value: Any) -> None:
        """Put a Swap, or the code of before, into the function.

        A call that has begun has its code and its defaults already; the order here is for one that begins between.
        """
        function = self.owner
        if isinstance(value, Swap):
            if self._swap is None:
                self._keyword_defaults = function.__kwdefaults__
                self._added = value.attributes.keys() - vars(function).keys()
            function.__kwdefaults__ = value.keyword_defaults
            function.__code__ = value.code
            vars(function).update({name: one for name, one in value.attributes.items() if name in self._added})
            self._swap = value
            return
        function.__code__ = value
        function.__kwdefaults__ = self._keyword_defaults
        for name in self._added:
            vars(function).pop(name, None)
        self._swap = None

    def delete(self) -> None:
        """Refuse: a function always has code."""
        raise TypeError(f"the code of {self} cannot be absent")

    def __str__(self) -> str:
        return f"{self.owner.__module__}:{self.owner.__qualname__}"


class Slot(Protocol):
    """One place of one owner: the three of this file, and those of _part.py."""

    @property
    def owner(self) -> Any:
        """Whose place it is."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""

    @property
    def in_class(self) -> type | None:
        """The owner when it is a class, so that functions in it are methods."""

    def read(self) -> Any:
        """Return the owner's *own* value, or ABSENT."""

    def inherited(self) -> Any:
        """Return what the owner has from elsewhere when it has nothing of its own, or ABSENT."""

    def write(self, value: Any) -> None:
        """Put a value there."""

    def delete(self) -> None:
        """Make it absent."""


# What the slots that have layers of ours held before, and the slots themselves, by key: kept by their sites.
originals: Final[dict[tuple[Any, ...], tuple[Any, Slot]]] = {}


class _Look:
    """One look at what a slot holds. Overtaken when another thread puts the first layer there meanwhile."""

    going_on: ClassVar[set[_Look]] = set()

    def __init__(self, slot: Slot) -> None:
        self.key: Final = slot.key
        self.is_overtaken = False


def began(slot: Slot, original: Any) -> None:
    """Note what a slot holds, before the first layer is put there."""
    originals[slot.key] = original, slot
    for look in list(_Look.going_on):
        if look.key == slot.key:
            look.is_overtaken = True


def without_ours(slot: Slot, read: Callable[[], T]) -> T:
    """Return what a slot holds without our layers: the original, or what ``read`` finds where there is no layer."""
    look = _Look(slot)
    _Look.going_on.add(look)
    try:
        while True:
            look.is_overtaken = False
            known = originals.get(look.key)
            if known is not None:
                return cast(T, known[0])
            found = read()
            if not look.is_overtaken:
                return found
    finally:
        _Look.going_on.discard(look)


def own_beneath(slot: Slot) -> Any:
    """Return the owner's own value without our layers, or ABSENT."""
    return without_ours(slot, slot.read)


def beneath(slot: Slot) -> Any:
    """Return what a user of the slot would get without our layers, or ABSENT."""
    own = own_beneath(slot)
    if own is ABSENT and isinstance(slot, AttributeSlot) and slot.in_class is not None:
        bases = type.__dict__["__mro__"].__get__(slot.in_class)[1:]
        found = (own_beneath(AttributeSlot(base, slot.name)) for base in bases)  # not what lies over a base's own
        return next((value for value in found if value is not ABSENT), ABSENT)
    if own is not ABSENT:
        return own
    known = originals.get(slot.key)
    return (slot if known is None else known[1]).inherited()  # that one knows what its owner handed on before us


def put(slot: Slot, value: Any, unseen: bool = False) -> None:
    """Put a value into a slot, or make it absent for ABSENT; ``unseen``: even if it seems absent already."""
    if value is not ABSENT:
        slot.write(value)
    elif unseen or slot.read() is not ABSENT:
        slot.delete()


def beneath_proxies(there: Any, is_wanted: Callable[[Any], bool]) -> AttributeSlot | None:
    """Return the place in which somebody's proxy, such as wrapt's, keeps what it wraps; None if none does.

    Args:
        there: what stands in the slot: the proxy, or a chain of them.
        is_wanted: tells the value that is looked for.
    """
    while isinstance(along_mro(type(there), "__wrapped__"), KEPT):
        inside = AttributeSlot(there, "__wrapped__")
        there = inside.read()
        if is_wanted(there):
            return inside
    return None


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two values fetched from an owner are one: methods are bound anew at each look."""
    return one is other or (type(one) is type(other) and type(one) in _METHODS and one == other)


_METHODS: Final = (MethodType, BuiltinMethodType, MethodWrapperType)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values read from a slot are one. Some owners, such as os.environ, make plain values anew."""
    return one is other or (type(one) is type(other) and type(one) in (str, bytes, int, float) and one == other)


def inner(held: Any) -> Any:
    """Return what names outside a class are bound to: of a static or class method the function."""
    # By its type: a proxy of a static method says that it is one, and is something else.
    return held.__func__ if issubclass(type(held), (staticmethod, classmethod)) else held


def along_mro(owner: type, name: str, past_owner: bool = False) -> Any:
    """Return the first entry of that name along a class's MRO, as it lies there, or ABSENT."""
    for base in type.__dict__["__mro__"].__get__(owner)[past_owner:]:
        if name in vars(base):
            return vars(base)[name]
    return ABSENT
