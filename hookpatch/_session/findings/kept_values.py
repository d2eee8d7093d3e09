"""Find the places that still hold the value of a patch after the end."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any

from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Attribute
from hookpatch._engine.site.site import Alone
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.holders import RUNNING, Holder, holders
from hookpatch._engine.slots.originals import is_patched
from hookpatch._engine.slots.referrers import HERE, hides_objects, is_of_hookpatch, lists_references, running_codes
from hookpatch._engine.slots.slot import ABSENT, inner, is_same_value
from hookpatch._session.findings.stale import owner_of
from hookpatch._session.ledger import Entry, references


def note_kept(entries: Sequence[Entry]) -> None:
    """Note in entries of ended patches which places still hold the value of the patch."""
    kept = _keeping_places(entries)
    if kept:  # maybe by objects that nobody refers to any more
        gc.collect()
        kept = _keeping_places(entries)
    for entry in entries:
        places = kept.get(id(entry), set())
        for value in _given_or_made(entry):
            places.update(() if _is_definition(value) else _bound_inside(entry, value))
        entry.kept = tuple(f"{place} keeps the value of the ended patch" for place in sorted(places))


def _keeping_places(entries: Sequence[Entry]) -> dict[int, set[str]]:
    """Return the places that hold the functions and classes of ended patches, in words, by id of the entry."""
    sought = {id(value) for entry in entries for value in _given_or_made(entry) if _is_definition(value)}
    if not (sought and lists_references()):
        return {}
    growth = _growth(entries)
    # In no list of ours: the list would be a holder.
    values = ((id(value), value) for entry in entries for value in _given_or_made(entry) if id(value) in sought)
    keepers = holders([*dict(values).values()], True)  # each value once
    kept: dict[int, set[str]] = {}
    for entry in entries:
        numbers = {id(value) for value in _given_or_made(entry)}
        holders_of_entry = [holder for holder in keepers if id(holder.thing) in numbers]
        keeping = [holder for holder in holders_of_entry if _keeps_value_of(holder, entry)]
        places = {holder.words for holder in keeping}
        # A place in a module may be older than the session; of the definition this is certain.
        named = [holder for holder in holders_of_entry if holder.root and holder.words != describe(holder.thing)]
        if (more := growth.get(id(entry), 0) - len({id(holder) for holder in (*named, *keeping)})) > 0:
            kinds = {
                holder.words if holder.holder is not None else "C code or a running function"
                for holder in holders_of_entry
                if not holder.root
            }
            list_of_kinds = "".join(f", {kind}" for kind in sorted(kinds - places))
            places.add(f"a place without a name ({more} more reference{'s' * (more > 1)} than before{list_of_kinds})")
        if places:
            kept[id(entry)] = places
    return kept


def _growth(entries: Sequence[Entry]) -> dict[int, int]:
    """Return how many references each given function has gained since the session was made, by id of the entry.

    Functions are left out if other threads may disturb the count: while the function runs, or another thread runs
    hookpatch; and if another open session has the function.
    """
    growth: dict[int, int] = {}
    for entry in entries:
        before = None if entry.place or not entry.request.goes_to(None) else entry.references
        if before is not None and (now := references(entry.request.patch)) is not None and now > before:
            growth[id(entry)] = now - before
    grown = [entry for entry in entries if id(entry) in growth]
    if not grown or hides_objects() or any(code.co_filename.startswith(HERE) for code in running_codes(get_ident())):
        return {}
    running = running_codes()
    objects = gc.get_referrers(*[entry.request.patch.change for entry in grown])  # one pass for all
    of_hookpatch = [holder for holder in objects if is_of_hookpatch(holder)]
    del objects
    for entry in grown:
        patch = entry.request.patch
        own = patch, patch._prepared and patch._prepared.alone
        other_holders = [
            holder
            for holder in of_hookpatch
            if not any(holder is keeper for keeper in own)
            and any(referent is patch.change for referent in gc.get_referents(holder))
        ]
        if patch.change.__code__ in running or not all(type(holder) in (Patch, Alone) for holder in other_holders):
            del growth[id(entry)]
        else:
            growth[id(entry)] -= len(other_holders)
    return growth


def _is_definition(value: Any) -> bool:
    return issubclass(type(value), (FunctionType, type))


def _given_or_made(entry: Entry) -> list[Any]:
    patch = entry.request.patch
    if patch.verb == "replace" and entry.place is None and not patch.source:
        return [inner(patch.change)]
    return [value for weak in entry.former if (value := weak()) is not None]


def _keeps_value_of(holder: Holder, entry: Entry) -> bool:
    """Return True if a place has a value because of an ended patch: a given value is in places of its own, too."""
    if not entry.request.goes_to(holder.root):
        return False
    if entry.request.patch.verb != "replace":
        return True
    from hookpatch._engine.patch.bound_names import is_copied  # parses source, and is rarely needed

    home, slot, target = getattr(holder.thing, "__module__", None), holder.slot, entry.request.patch.target
    root = holder.root or _module_of_running(holder.holder)
    if root is None:  # an object without a name is no place of a function that is defined in a function
        return holder.holder is not None and "<" in getattr(holder.thing, "__qualname__", "")
    if root == home or target is None or (slot is not None and is_patched(slot)):
        return False
    name = slot.name if isinstance(slot, AttributeSlot) and isinstance(slot.owner, ModuleType) else ""
    of_target = target.slot.name if isinstance(target.slot, Attribute) else ""
    return is_copied(holder.thing, root, name, [(str(target.module), of_target)])


def _module_of_running(holder: Any) -> str | None:
    frames = (getattr(holder, name, None) for name in ("gi_frame", "cr_frame", "ag_frame") if type(holder) in RUNNING)
    return next((frame.f_globals.get("__name__") for frame in frames if frame is not None), None)


def _bound_inside(entry: Entry, value: Any) -> list[str]:
    """Return the names that a module has bound, by its source, from the target, and that have the patch's value."""
    from hookpatch._engine.patch.bound_names import bound_from  # as in ``_keeps_value_of``

    target = entry.request.patch.target
    if target is None or not isinstance(target.slot, Attribute):
        return []
    is_ours, name, owner = partial(is_same_value, value), target.slot.name, owner_of(target)
    if not issubclass(type(owner), ModuleType) or is_ours(vars(owner).get(name, ABSENT)):
        return []
    return bound_from(str(target.module), name, is_ours)
