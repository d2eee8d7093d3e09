"""The original value of a slot, beneath our layers. Known as long as the slot has layers."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol, cast

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import write_notes
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, KEPT, Slot, T, along_mro, mro


class PatchedSlot(Protocol):
    """A slot with layers, and the owner's own value before the first layer, or ABSENT.

    ``base``: the value under the innermost layer, own or inherited; ABSENT for none, or for a value not yet fetched.
    """

    @property
    def slot(self) -> Slot: ...

    @property
    def original(self) -> Any: ...

    @property
    def base(self) -> Any: ...

    @property
    def is_foreign(self) -> bool: ...


# The patched slots by key, kept by their sites; read by the functions below. GIL: each change is one operation.
originals: Final[dict[tuple[Any, ...], PatchedSlot]] = {}


def patched_at(key: tuple[Any, ...]) -> PatchedSlot | None:
    """Return the patched slot with a key, None for an unpatched slot."""
    write_notes()
    return originals.get(key)


def is_patched(slot: Slot) -> bool:
    """Return True if a slot has layers."""
    return patched_at(slot.key) is not None


def patched_slots() -> list[PatchedSlot]:
    """Return all patched slots."""
    write_notes()
    return [*originals.values()]


def _give_originals(module: ModuleType) -> None:
    """Give a file of hookpatch, imported inside a block, the originals of what it has imported by name."""
    values: dict[int, Any] = {}
    for patched in patched_slots():
        slot, original = patched.slot, patched.original
        if issubclass(type(slot.owner), ModuleType) and original is not ABSENT and callable(value := slot.read()):
            values[id(value)] = original
    for name, value in [*vars(module).items()] if values else ():  # mostly none: asked for each file at the start
        if id(value) in values:
            vars(module)[name] = values[id(value)]


imports.on_own_file.append(_give_originals)


class _Read:
    """One read of a slot. Overtaken if another thread puts the first layer into the slot meanwhile."""

    __slots__ = ("is_overtaken", "key")

    running: ClassVar[set[_Read]] = set()

    def __init__(self, slot: Slot) -> None:
        self.key: Final = slot.key
        self.is_overtaken = False


reading: Final = _Read.running  # by any thread


def began(patched: PatchedSlot) -> None:
    """Note the original value of a slot, before the first layer is put into the slot."""
    key = patched.slot.key
    originals[key] = patched
    for running in list(_Read.running) if _Read.running else ():
        if running.key == key:
            running.is_overtaken = True


def without_ours(slot: Slot, read: Callable[[], T]) -> T:
    """Return the slot's value without our layers: the original, or the result of ``read`` for an unpatched slot."""
    current = _Read(slot)
    _Read.running.add(current)
    try:
        while True:
            current.is_overtaken = False
            if (patched := patched_at(current.key)) is not None:
                return cast(T, patched.original)
            value = read()
            if not current.is_overtaken:
                return value
    finally:
        _Read.running.discard(current)


def own_beneath(slot: Slot) -> Any:
    """Return the owner's own value without our layers, or ABSENT."""
    return without_ours(slot, slot.read)


def beneath(slot: Slot) -> Any:
    """Return the own or inherited value without our layers, or ABSENT."""
    own = own_beneath(slot)
    if own is not ABSENT:
        return own
    if isinstance(slot, AttributeSlot) and slot.in_class is not None:
        own_of_bases = (own_beneath(AttributeSlot(base, slot.name)) for base in mro(slot.in_class)[1:])
        return next((value for value in own_of_bases if value is not ABSENT), ABSENT)
    patched = patched_at(slot.key)
    if patched is not None and patched.base is not ABSENT:
        return patched.base  # not fetched again from the owner, whose code may raise by now
    return (slot if patched is None else patched.slot).inherited()  # a patched slot notes a forwarded original


def beneath_proxies(value: Any, is_wanted: Callable[[Any], bool]) -> AttributeSlot | None:
    """Return the slot in which a foreign proxy, such as wrapt's, or an inner proxy, holds a wanted value."""
    while isinstance(along_mro(type(value), "__wrapped__"), KEPT):
        slot = AttributeSlot(value, "__wrapped__")
        value = slot.read()
        if is_wanted(value):
            return slot
    return None
