"""What lies in a slot beneath our layers: its original, as long as there are any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._slot import ABSENT, KEPT, Slot, along_mro, mro

T = TypeVar("T")


class Held(Protocol):
    """A slot, and what it held before any layer of ours."""

    @property
    def slot(self) -> Slot:
        """The slot."""

    @property
    def original(self) -> Any:
        """The owner's own value, or ABSENT."""


originals: Final[dict[tuple[Any, ...], Held]] = {}  # of the slots that have layers of ours, by key: kept by their sites


class _Look:
    """One look at what a slot holds. Overtaken when another thread puts the first layer there meanwhile."""

    __slots__ = ("is_overtaken", "key")

    going_on: ClassVar[set[_Look]] = set()

    def __init__(self, slot: Slot) -> None:
        self.key: Final = slot.key
        self.is_overtaken = False


def began(held: Held) -> None:
    """Note what a slot holds, before the first layer is put there."""
    key = held.slot.key
    originals[key] = held
    for look in list(_Look.going_on):
        if look.key == key:
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
                return cast(T, known.original)
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
        bases = mro(slot.in_class)[1:]
        found = (own_beneath(AttributeSlot(base, slot.name)) for base in bases)  # not what lies over a base's own
        return next((value for value in found if value is not ABSENT), ABSENT)
    if own is not ABSENT:
        return own
    known = originals.get(slot.key)
    return (slot if known is None else known.slot).inherited()  # that one knows what its owner handed on before us


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
