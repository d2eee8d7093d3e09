"""Find out if a plugin may run the apply function once to get values without an address, and then restore the slots."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from types import CodeType, ModuleType
from typing import Any, Final

from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import write_or_delete
from hookpatch._inspect.adopt.changes import Changes
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.snapshot import Change

SPECIAL: Final = ("__code__", "__class__")  # attributes that no dictionary holds
_VALUES: Final = (*PLAIN, tuple, frozenset, list, dict, set, ModuleType, CodeType)


def restore(changes: Mapping[str, Change]) -> None:
    """Write the values before the patches into the slots."""
    for change in changes.values():
        if issubclass(type(change.owner), dict):
            write_or_delete(ItemSlot(change.owner, change.name), change.before)
        else:
            write_or_delete(AttributeSlot(change.owner, change.name), change.before)


def take_values(
    entries: MutableSequence[dict[str, Any]], changed: Mapping[str, Change], changes: Changes, beside: set[str]
) -> None:
    """Mark the patches whose values a run of the apply function makes, if restored slots leave no other change.

    The marked patches come first: the function runs before any other patch of the plugin is applied.

    Args:
        entries: the patches; a marked patch gets ``taken``.
        changed: all changes of the apply function, by address.
        changes: compares the process with the time before.
        beside: the addresses of changes by other code.
    """
    lost = [entry for entry in entries if "verb_if_taken" in entry]
    values = [entry for entry in lost if _can_be_taken(changed[entry["target"]].now)]
    if not values or len(values) < sum(not entry["verb"] for entry in entries):
        return  # a changed lock, for example, is a change of state that restored slots do not take back
    try:
        restore(changed)
    except Exception:  # foreign code
        return
    if changes.addresses() - beside:
        return
    for entry in values:
        del entry["reason"]
        entry.update(verb=entry.pop("verb_if_taken"), taken=True)


def _can_be_taken(value: Any) -> bool:
    """Return True for code and plain values: a lock, for example, belongs to the state of one process."""
    return is_code(value) or type(value) in _VALUES or any(base in PLAIN for base in type(value).__mro__)
