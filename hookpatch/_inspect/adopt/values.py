"""Find out if a plugin may run the apply function once to get values without an address, and then restore the slots."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any, Final

from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import ABSENT, along_mro, write_or_delete
from hookpatch._inspect.adopt.changes import Changes
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.snapshot import Change

SPECIAL: Final = ("__code__", "__class__")  # attributes that no dictionary holds


def restore(changes: Mapping[str, Change]) -> None:
    """Write the values before the patches into the slots."""
    for change in changes.values():
        if issubclass(type(change.owner), dict):
            write_or_delete(ItemSlot(change.owner, change.name), change.before)
        else:
            write_or_delete(AttributeSlot(change.owner, change.name), change.before)


def is_restored(changed: Mapping[str, Change], changes: Changes, beside: set[str]) -> bool:
    """Restore the slots; return True if no change is left. A changed lock is a change of state that always stays."""
    try:
        restore(changed)
    except Exception:  # foreign code
        return False
    return not (changes.addresses() - beside or any(is_lock(change.now) for change in changed.values()))


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
    values = [entry for entry in entries if "verb_if_taken" in entry]
    if len(values) < sum(not entry["verb"] for entry in entries) or not is_restored(changed, changes, beside):
        return
    for entry in values:
        del entry["reason"]
        entry.update(verb=entry.pop("verb_if_taken"), taken=True)


def is_lock(value: Any) -> bool:
    """Return True for a lock, which belongs to the state of one process, such as the threads that wait."""
    return all(along_mro(type(value), name) is not ABSENT for name in ("acquire", "release")) and not is_code(value)
