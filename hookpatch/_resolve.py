"""An address made a slot: the way from a module, or an object at hand, to the place it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeAlias

from hookpatch import _imports
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._beneath import beneath, without_ours
from hookpatch._item_slot import ItemSlot
from hookpatch._slot import ABSENT, Slot, along_mro, mro
from hookpatch._target import Attribute, Item, Target, a_kind, describe
from hookpatch.errors import TargetNotFound, TargetRefused

MISSING: Final = object()
Read: TypeAlias = Callable[[Any, str], Any]  # the value of an owner's attribute, or MISSING


def _get(owner: Any, name: str) -> Any:
    return getattr(owner, name, MISSING)


def resolve(target: Target, module: ModuleType | None, owner: object, read: Read = _get) -> Slot:
    """Return the slot that a target names.

    Args:
        target: the address.
        module: the target's module, imported; None for a target at hand.
        owner: who asks for it, for messages.
        read: how attributes on the way are read; a way of one's own wakes nothing, and refuses no lazy name.

    Raises:
        TargetNotFound: a step on the way, or the place of a list, is not there. Whether the slot itself holds
            anything is not looked at.
        TargetRefused: the last owner holds items that cannot be set, or fetches its names lazily.
    """
    holder = target.start if module is None else module
    last = len(target.steps) - 1
    for at in range(last):
        holder = _follow(holder, target, at, target, owner, read)
    step = target.slot
    if isinstance(step, Attribute):
        if read is _get:
            _refuse_lazy(holder, step.name, target, owner)
        return AttributeSlot(holder, step.name)
    return _item(holder, target, last, target, owner, read)


def missing(slot: Slot, target: Target, owner: object) -> TargetNotFound:
    """Return the error for a slot that holds nothing."""
    where = _place(target, len(target.steps) - 1)
    if isinstance(slot, AttributeSlot):
        return TargetNotFound(target, owner, where, "attribute", slot.name, _names(slot.owner))
    assert isinstance(slot, ItemSlot)  # the third kind, the code of a function, is always there
    return TargetNotFound(target, owner, where, "key", slot.index, _keys(slot.owner))


# In what follows ``way`` is the address that is followed: the target's own, or that of a key in it.


def _follow(holder: Any, way: Target, at: int, target: Target, owner: object, read: Read) -> Any:
    step = way.steps[at]
    if isinstance(step, Attribute):
        slot = AttributeSlot(holder, step.name)
        # Not what a patch put there: it may end before the one that is being placed.
        found = without_ours(slot, partial(read, holder, step.name))
        value = slot.inherited() if found is ABSENT else found
        if value is MISSING or value is ABSENT:
            raise TargetNotFound(target, owner, _place(way, at), "attribute", step.name, _names(holder))
        return value
    item = _item(holder, way, at, target, owner, read)
    if (value := beneath(item)) is ABSENT:
        raise TargetNotFound(target, owner, _place(way, at), "key", item.index, _keys(holder))
    return value


def _item(holder: Any, way: Target, at: int, target: Target, owner: object, read: Read) -> ItemSlot:
    kind, place = a_kind(holder), _place(way, at)
    step = way.steps[at]
    assert isinstance(step, Item)  # the caller has looked
    if not hasattr(type(holder), "__getitem__"):
        raise TargetRefused(target, owner, f"{place} is {kind}, which has no items")
    if not all(hasattr(type(holder), name) for name in ("__setitem__", "__delitem__", "__contains__")):
        raise TargetRefused(
            target, owner, f"{place} is a read-only {type(holder).__name__}; patch what it shows instead"
        )
    key = _key(step.key, target, owner, read)
    if isinstance(holder, MutableSequence):
        if not isinstance(key, int):
            raise TargetRefused(target, owner, f"{place} is {kind}: its key is a number, not {key!r}")
        if not -len(holder) <= key < len(holder):
            raise TargetNotFound(target, owner, place, "key", key, ())
        key %= len(holder)
    return ItemSlot(holder, key)


def _key(key: Any, target: Target, owner: object, read: Read) -> Any:
    if not isinstance(key, Target):
        return key
    assert key.module is not None  # a key in words is an address in a module
    try:
        found: Any = _imports.fetch(key.module)
    except ImportError as error:
        raise TargetNotFound(target, owner, f"the key {key}", "module", key.module, ()) from error
    for at in range(len(key.steps)):
        found = _follow(found, key, at, target, owner, read)
    return found


def _refuse_lazy(holder: Any, name: str, target: Target, owner: object) -> None:
    """Refuse a name of a module that replaced itself by an object that fetches names on demand (transformers)."""
    kind = type(holder)
    lazy = kind is not ModuleType and isinstance(holder, ModuleType) and along_mro(kind, "__getattr__") is not ABSENT
    if not lazy or name in vars(holder):
        return
    value = getattr(holder, name, ABSENT)  # wakes it: nothing is lost, the patch is refused
    if value is ABSENT:
        return
    home, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    where = f"take the address where it is defined: {home}:{path}" if path else "take the module that defines it"
    raise TargetRefused(
        target, owner, f"module {holder.__name__} fetches '{name}' lazily and may be replaced at any import; {where}"
    )


def _place(way: Target, at: int) -> str:
    """Return how messages name the owner of a step."""
    return way.up_to(at) if at else way.module or describe(way.start)


def _keys(holder: Any) -> list[str]:
    """Return the keys that a misspelt one is compared with."""
    return [] if isinstance(holder, MutableSequence) else [key for key in holder if isinstance(key, str)]


def _names(holder: Any) -> Iterable[str]:
    """Return the names a holder has, read without waking anything."""
    own = set(vars(holder)) if hasattr(holder, "__dict__") else set()
    for base in mro(holder if isinstance(holder, type) else type(holder)):
        own |= set(vars(base))
    return sorted(own)
