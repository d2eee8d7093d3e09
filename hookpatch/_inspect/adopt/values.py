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


def take_values(
    entries: MutableSequence[dict[str, Any]], changed: Mapping[str, Change], changes: Changes, beside: set[str]
) -> None:
    """Mark the patches whose values a run of the apply function makes, if restored slots leave no other change.

    The marked patches come first: the function runs before any other patch of the plugin is applied.

    Args:
        entries: the patches; a marked patch gets ``taken``, else the reason names what a run would leave.
        changed: all changes of the apply function, by address.
        changes: compares the process with the time before.
        beside: the addresses of changes by other code.
    """
    values = [entry for entry in entries if "verb_if_taken" in entry]
    problem = _restored(changed, changes, beside) if values else ""
    for entry in values:
        verb = entry.pop("verb_if_taken")
        if problem:
            entry["reason"] += f"; a run of the function for it alone {problem}"
        else:
            del entry["reason"]
            entry.update(verb=verb, taken=True)


def _restored(changed: Mapping[str, Change], changes: Changes, beside: set[str]) -> str:
    """Restore the slots; return in words the first change that is left. A changed lock is a state that always stays."""
    for target, change in changed.items():
        kind = ItemSlot if issubclass(type(change.owner), dict) else AttributeSlot
        try:
            write_or_delete(kind(change.owner, change.name), change.before)
        except Exception:  # foreign code
            return f"leaves {target} changed"
    locks = [f"sets the lock {target}" for target, change in changed.items() if is_lock(change.now)]
    left = [f"leaves {target} changed" for target in sorted(changes.addresses() - beside)]
    return next(iter([*locks, *left]), "")


def is_lock(value: Any) -> bool:
    """Return True for a lock, which belongs to the state of one process, such as the threads that wait."""
    return all(along_mro(type(value), name) is not ABSENT for name in ("acquire", "release")) and not is_code(value)
