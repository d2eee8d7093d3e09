"""One place of one owner: what every kind of slot can do, and the value that stands for none.

Reading a slot wakes nothing and makes nothing: no property runs, no defaultdict makes an entry, no lazy module imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, Protocol, final


@final
class _Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

# What a class has, whatever its metaclass says when it is asked.
mro: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
_own: Final[Callable[[type], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__

# Descriptors of values that an object keeps itself: of __slots__, or of the interpreter such as __defaults__.
KEPT: Final = (MemberDescriptorType, GetSetDescriptorType)


class Slot(Protocol):
    """One place of one owner: an attribute, an entry, the code of a function, or a part of what lies in another."""

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


def put(slot: Slot, value: Any, unseen: bool = False) -> None:
    """Put a value into a slot, or make it absent for ABSENT; ``unseen``: even if it seems absent already."""
    if value is not ABSENT:
        slot.write(value)
    elif unseen or slot.read() is not ABSENT:
        slot.delete()


def same(one: Any, other: Any) -> bool:
    """Tell whether two values read from a slot are one. Some owners, such as os.environ, make plain values anew."""
    return one is other or (type(one) is type(other) and type(one) in (str, bytes, int, float) and one == other)


def inner(held: Any) -> Any:
    """Return what names outside a class are bound to: of a static or class method the function."""
    # By its type: a proxy of a static method says that it is one, and is something else.
    return held.__func__ if issubclass(type(held), (staticmethod, classmethod)) else held


def along_mro(owner: type, name: str, past_owner: bool = False) -> Any:
    """Return the first entry of that name along a class's MRO, as it lies there, or ABSENT."""
    for base in mro(owner)[past_owner:]:
        if name in (own := _own(base)):
            return own[name]
    return ABSENT
