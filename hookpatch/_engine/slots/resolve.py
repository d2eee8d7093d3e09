"""Resolve an address to a slot: follow its steps from a module, or from an object without an address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeAlias

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.module_lookup import can_be_found
from hookpatch._engine.patch.target import Attribute, Item, Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import beneath, is_patched, without_ours
from hookpatch._engine.slots.slot import ABSENT, Slot, along_mro, mro
from hookpatch.errors import TargetNotFound, TargetRefused

MISSING: Final = object()
_ADDED: Final = "a patch adds it, and an address leads through the program's own values; change the added value itself"
Read: TypeAlias = Callable[[Any, str], Any]  # the value of an owner's attribute, or MISSING


def _get(owner: Any, name: str) -> Any:
    return getattr(owner, name, MISSING)


def resolve(target: Target, module: ModuleType | None, owner: object, read: Read = _get) -> Slot:
    """Return the slot of a target, which may be empty.

    Args:
        target: the address.
        module: the target's imported module; None for a target without a module.
        owner: the plugin or block that asks, for messages.
        read: reads an attribute on the way. Only the default function imports lazy names, and so can refuse them.

    Raises:
        TargetNotFound: a step on the way, or the index of a list, does not exist.
        TargetRefused: the last owner has items that cannot be set, or imports its names lazily; or the address stands
            for more than one slot.
    """
    if target.is_rule or target.of_instances or target.written_out:
        raise TargetRefused(target, owner, f"{target} stands for several slots; write the address of a single slot")
    holder = target.start if module is None else module
    last = len(target.steps) - 1
    for index in range(last):
        holder = _follow(holder, target, index, target, owner, read)
    step = target.slot
    if isinstance(step, Attribute):
        if read is _get:
            _refuse_lazy(holder, step.name, target, owner)
        return AttributeSlot(holder, step.name)
    return _item(holder, target, last, target, owner, read)


def seen_from(target: Target, module: ModuleType | None, owner: object, read: Read = _get) -> Slot:
    """Return the slot that represents a target: for instances the slot in the class, or the slot of the class itself.

    Raises like ``resolve``.
    """
    slot = resolve(target.of_class, module, owner, read)
    if target.of_instances is not None and beneath(slot) is ABSENT:
        return resolve(Target(target.up_to(target.steps.index(target.of_instances))), module, owner, read)
    return slot


def missing(slot: Slot, target: Target, owner: object, where: str | None = None, remedy: str = "") -> TargetNotFound:
    """Return the error for an empty slot, or for an empty slot on the way.

    ``where`` is the slot's owner in words, ``remedy`` what to do besides a correction of the name.
    """
    where = where or _words(target, len(target.steps) - 1)
    if isinstance(slot, AttributeSlot):
        return TargetNotFound(target, owner, where, "attribute", slot.name, _names(slot.owner), remedy)
    assert isinstance(slot, ItemSlot)  # the third kind, the code of a function, is never absent
    return TargetNotFound(target, owner, where, "key", slot.index, _keys(slot.owner), remedy)


def has_value(slot: Slot, own: object) -> bool:
    """Return True if an owner has a value in a slot, inherits or fetches it: by a ``__getattr__``, or by an import."""
    if own is not ABSENT or slot.inherited() is not ABSENT:
        return True
    return isinstance(slot, ItemSlot) and imports.is_of_modules(slot.owner) and can_be_found(slot.index)


def if_added(slot: Slot) -> str:
    """Return the remedy for an address through an empty slot, if a patch has put a value there; else empty."""
    return _ADDED if is_patched(slot) else ""


def follow(holder: Any, way: Target, index: int, owner: object, read: Read) -> Any:
    """Return the value to which a step of an address leads from an object, without patches.

    Raises:
        TargetNotFound: the object lacks the attribute or entry.
        TargetRefused: the object has no entries.
    """
    return _follow(holder, way, index, way, owner, read)


def value_of(address: Target, target: Target, owner: object) -> Any:
    """Return the value at an address inside a target's address (a key's, for example), without patches.

    Raises:
        TargetNotFound: the module cannot be imported, or a step leads nowhere.
    """
    return _key(address, target, owner, _get)


# Below, ``way`` is the address to follow: ``target`` itself, or the address of a key in ``target``.


def _follow(holder: Any, way: Target, index: int, target: Target, owner: object, read: Read) -> Any:
    step = way.steps[index]
    if isinstance(step, Attribute):
        slot: Slot = AttributeSlot(holder, step.name)
        # Without patches: a patch on the way may end before the new one.
        value = without_ours(slot, partial(read, holder, step.name))
        value = slot.inherited() if value is ABSENT else value
    elif _can_be_set(holder):
        slot = _item(holder, way, index, target, owner, read)
        value = beneath(slot)
    else:
        return _read_item(holder, way, index, target, owner, read)
    if value is MISSING or value is ABSENT:
        raise missing(slot, target, owner, _words(way, index), if_added(slot))
    return value


def _can_be_set(holder: Any) -> bool:
    """Return True if a holder's entries can be set and deleted, and so be patched."""
    return all(hasattr(type(holder), name) for name in ("__setitem__", "__delitem__", "__contains__"))


def _refuse_without_items(holder: Any, words: str, target: Target, owner: object) -> None:
    if not hasattr(type(holder), "__getitem__"):
        raise TargetRefused(target, owner, f"{words} is {a_kind(holder)}, which has no items")


def _read_item(holder: Any, way: Target, index: int, target: Target, owner: object, read: Read) -> Any:
    """Return an entry of any object with entries, also of a tuple: on the way no entry is set."""
    words, step = _words(way, index), way.steps[index]
    assert isinstance(step, Item)  # the caller has checked
    _refuse_without_items(holder, words, target, owner)
    key = _key(step.key, target, owner, read)
    try:
        return holder[key]
    except (LookupError, TypeError) as error:
        raise TargetNotFound(target, owner, words, "key", key, ()) from error


def _item(holder: Any, way: Target, index: int, target: Target, owner: object, read: Read) -> ItemSlot:
    words = _words(way, index)
    step = way.steps[index]
    assert isinstance(step, Item)  # the caller has checked
    _refuse_without_items(holder, words, target, owner)
    if not _can_be_set(holder):
        modules = vars(holder).get("_modules") if hasattr(holder, "__dict__") else None  # of a torch module
        instead = "patch the mapping or list behind it" if modules is None else f"take {words}._modules['{step.key}']"
        problem = f"{words} is a read-only {type(holder).__name__}; {instead}"
        raise TargetRefused(target, owner, problem)
    key = _key(step.key, target, owner, read)
    if isinstance(holder, MutableSequence):
        if not isinstance(key, int):
            raise TargetRefused(target, owner, f"{words} is {a_kind(holder)}: its key is a number, not {key!r}")
        is_next = key == len(holder) and index == len(target.steps) - 1  # the place of an entry to add
        if not (-len(holder) <= key < len(holder) or is_next):
            raise TargetNotFound(target, owner, words, "key", key, ())
        key = key if is_next else key % len(holder)
    return ItemSlot(holder, key)


def _key(key: Any, target: Target, owner: object, read: Read) -> Any:
    if not isinstance(key, Target):
        return key
    assert key.module is not None  # an address in brackets begins with a module
    try:
        value: Any = imports.fetch(key.module)
    except ImportError as error:
        raise TargetNotFound(target, owner, f"the key {key}", "module", key.module, ()) from error
    for index in range(len(key.steps)):
        value = _follow(value, key, index, target, owner, read)
    return value


def _refuse_lazy(holder: Any, name: str, target: Target, owner: object) -> None:
    """Refuse a lazy name of a module that replaced itself by an object with ``__getattr__`` (transformers)."""
    kind = type(holder)
    lazy = kind is not ModuleType and isinstance(holder, ModuleType) and along_mro(kind, "__getattr__") is not ABSENT
    if not lazy or name in vars(holder):
        return
    value = getattr(holder, name, ABSENT)  # imports the name; harmless, since the patch is refused
    if value is ABSENT:
        return
    home, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    where = f"take the address of the definition: {home}:{path}" if path else "take the module of the definition"
    problem = f"module {holder.__name__} fetches '{name}' lazily and may be replaced at any import; {where}"
    raise TargetRefused(target, owner, problem)


def _words(way: Target, index: int) -> str:
    """Return the owner of a step in words."""
    return way.up_to(index) if index else way.module or describe(way.start)


def _keys(holder: Any) -> list[str]:
    """Return the keys to compare with a misspelt key."""
    return [] if isinstance(holder, MutableSequence) else [key for key in list(holder) if isinstance(key, str)]


def _names(holder: Any) -> Iterable[str]:
    """Return the attribute names of an object, without waking lazy names."""
    names = set(vars(holder)) if hasattr(holder, "__dict__") else set()
    for base in mro(holder if isinstance(holder, type) else type(holder)):
        names |= set(vars(base))
    return sorted(names)
