"""The Slot protocol: one place of one owner that holds a value. ABSENT marks an empty slot.

Reading a slot has no side effect: no property runs, no defaultdict makes an entry, no lazy module is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar, final
from weakref import WeakValueDictionary

from hookpatch._bootstrap.interrupts import ErrorsOfCode, Turn
from hookpatch._engine.patch.describe import PLAIN

T = TypeVar("T")


@final
class _Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

# Read from `type` itself: a metaclass may answer differently.
_known_mro: Final[Callable[[type], tuple[type, ...] | None]] = type.__dict__["__mro__"].__get__
_flags: Final[Callable[[Any], int]] = type.__dict__["__flags__"].__get__
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # of CPython's Py_TPFLAGS_HEAPTYPE and Py_TPFLAGS_IMMUTABLETYPE
_ABSTRACT = 1 << 20  # Py_TPFLAGS_IS_ABSTRACT
_own: Final[Callable[[type], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__

# Without the GIL, Python defers the count of references to functions.
COUNTS_REFERENCES: Final = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()

# Descriptors of values that an object stores itself: of __slots__, or of the interpreter such as __defaults__.
KEPT: Final = (MemberDescriptorType, GetSetDescriptorType)


class Slot(Protocol):
    """One place of one owner: an attribute, an entry, the code of a function, or a part of another slot's value."""

    @property
    def owner(self) -> Any:
        """The object to which the place belongs."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of the place: two slots with equal keys are the same place."""

    @property
    def in_class(self) -> type | None:
        """The owner if the owner is a class: functions in the slot are methods."""

    def read(self) -> Any:
        """Return the owner's *own* value, or ABSENT."""

    def inherited(self) -> Any:
        """Return the value that an owner without an own value takes from elsewhere, or ABSENT."""

    def write(self, value: Any) -> None:
        """Set the owner's own value."""

    def delete(self) -> None:
        """Delete the owner's own value."""


class OwnValueSlot:
    """The base of slots whose value is never inherited, never a method and mostly never absent."""

    __slots__ = ()
    in_class: ClassVar[None] = None

    def inherited(self) -> Any:
        return ABSENT

    def delete(self) -> None:
        raise TypeError(f"{self} cannot be absent")


class Shared(Generic[T]):
    """Values by key, shared by several slots: each is made once and lives while a slot refers to it."""

    def __init__(self) -> None:
        self._values: Final[WeakValueDictionary[Any, T]] = WeakValueDictionary()
        self._lock: Final = Turn()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return the value of a key, made now unless a slot refers to it."""
        with self._lock:
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = make()
            return value


def write_or_delete(slot: Slot, value: Any, unseen: bool = False) -> None:
    """Write a value into a slot, or delete for ABSENT; ``unseen``: delete even if the slot reads as absent."""
    if value is not ABSENT:
        slot.write(value)
    elif unseen or slot.read() is not ABSENT:
        slot.delete()


def is_same_value(first: Any, second: Any) -> bool:
    """Return True if two values read from a slot are one object, or equal plain values: os.environ makes new ones."""
    return first is second or (
        type(first) is type(second) and type(first) in (str, bytes, int, float) and first == second
    )


def inner(value: Any) -> Any:
    """Return the function of a static or class method, and any other value unchanged."""
    # By type(), not isinstance: a proxy of a static method has the ``__class__`` of the static method.
    return value.__func__ if issubclass(type(value), (staticmethod, classmethod)) else value


def mro(cls: type) -> tuple[type, ...]:
    """Return a class and its bases, without a call of foreign code.

    Python completes some classes of C at the first look at an attribute: ``_socket.socket`` has no ``__mro__`` before.
    """
    known = _known_mro(cls)
    return type.__getattribute__(cls, "__mro__") if known is None else known


def is_class_of_program(value: object) -> bool:
    """Return True for a class whose attributes can be set: not a class of the interpreter or of C."""
    return issubclass(type(value), type) and bool(_flags(value) & _HEAP and not _flags(value) & _IMMUTABLE)


def is_abstract(cls: type) -> bool:
    """Return True for a class with abstract methods, which has no instances but those of subclasses."""
    return bool(_flags(cls) & _ABSTRACT)


def along_mro(owner: type, name: str, past_owner: bool = False) -> Any:
    """Return the first raw class attribute of a name along a class's MRO, or ABSENT."""
    for base in mro(owner)[past_owner:]:
        if name in (own := _own(base)):
            return own[name]
    return ABSENT


def attributes_of(value: object) -> Any:
    """Return the ``__dict__`` of an object without foreign code, None for an object without one."""
    member = along_mro(type(value), "__dict__")
    if not isinstance(member, KEPT):  # a member in types.SimpleNamespace
        return None
    with ErrorsOfCode(Exception):  # a proxy in C asks the wrapped object, which may lack a __dict__, or raise
        return member.__get__(value)
    return None


def alike(first: Any, second: Any) -> bool:
    """Return True if two values are one object, or equal values of a built-in type; no foreign code is called."""
    if first is second or type(first) is not type(second):
        return first is second
    if type(first) in (list, tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    if type(first) in (set, frozenset):
        return all(type(entry) in PLAIN for entry in (*first, *second)) and bool(first == second)
    if type(first) is dict:
        return alike(list(first), list(second)) and alike(list(first.values()), list(second.values()))
    return type(first) in PLAIN and bool(first == second)
