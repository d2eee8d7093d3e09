"""Find the slots of a patch with reach="everywhere": the names and places that hold the target's object already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.layer import derived
from hookpatch._engine.site.sites import over
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.site.stand_in import binds, is_ours
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.holders import Holder, holders
from hookpatch._engine.slots.originals import beneath, originals
from hookpatch._engine.slots.part import PartSlot
from hookpatch._engine.slots.referrers import works
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, put
from hookpatch._engine.slots.trial import THIS_PYTHON, functions_change_inside
from hookpatch.errors import TargetRefused


def check(patch: Patch, slot: Slot, own: Any, owner: str) -> None:
    """Refuse a patch that cannot go everywhere; ``own`` is the slot's own value without our layers, or ABSENT.

    Raises:
        TargetRefused: the slot holds a value that other code may hold by chance, or the patch removes.
    """
    thing = _target(slot, own)
    remedy = "take reach='slot', and one patch for each place"
    if not (functions_change_inside() if type(thing) is FunctionType else works()):
        problem = f"reach='everywhere' relies on what {THIS_PYTHON} does otherwise than hookpatch knows"
    elif patch.verb == "remove":
        problem = "reach='everywhere' cannot remove: lists and defaults that hold it would get shorter"
        remedy = "take one remove for each name"
    elif not is_recognisable(thing) or isinstance(thing, ModuleType):
        problem = f"reach='everywhere' looks for who holds an object, and {a_kind(thing)} may be held by chance"
    else:
        return
    raise TargetRefused(patch.address, owner, f"{problem}; {remedy}")


def held(slot: Slot, own: Any) -> list[Any]:
    """Return the object whose holders a patch needs; none for a Python function, which is changed in place."""
    thing = _target(slot, own)
    return [] if type(thing) is FunctionType else [thing]


def places(patch: Patch, slot: Slot, own: Any, found: Sequence[Holder] | None) -> list[tuple[Slot, str | None]]:
    """Return the slots of a patch, each with its place in words; None in place of words for the target itself.

    A Python function is changed in place, for all its holders. Of other objects the holders are patched where possible.
    ``found``: the holders of this object and others, if they were looked for just now.
    """
    value = beneath(slot) if own is ABSENT else own
    thing = inner(value)
    if type(thing) is FunctionType:
        return [(FunctionSlot(thing, binds(slot, value)), None)]
    changes = [patch.change, *derived()]  # kept alive: a cell of a dead function would be found without its function
    slots: dict[tuple[Any, ...], tuple[Slot, str | None]] = {} if own is ABSENT else {slot.key: (slot, None)}
    for site in over(thing):
        slots.setdefault(site.slot.key, (site.slot, str(site.slot)))
    for holder in holders([thing]) if found is None else [holder for holder in found if holder.thing is thing]:
        is_nameless = holder.root is None and isinstance(holder.slot, PartSlot)  # a tuple that no name leads to
        if holder.slot is not None and not is_nameless:
            slots.setdefault(holder.slot.key, (holder.slot, holder.words))
    left_out = {("part", 0, *slot.key)} if thing is not value else set()
    left_out = left_out.union(*map(_own_places, changes))
    return [place for key, place in slots.items() if key not in left_out]


def restore_copies(gone: Iterable[Former], were_there: frozenset[str], collect: Callable[[Exception], None]) -> None:
    """Restore the original in modules that were executed in a session and copied our value from a slot.

    Args:
        gone: our former values.
        were_there: the names of the modules that were imported before the session.
        collect: takes an error of an owner.
    """
    came = imports.names() - were_there
    originals_of = {
        id(former.value): former.original
        for former in gone
        if former.value is not former.original and (is_ours(former.value) or (came and is_recognisable(former.value)))
    }
    if not originals_of:
        return
    for holder in holders([former.value for former in gone if id(former.value) in originals_of]):
        slot, thing = holder.slot, holder.thing
        # Leave a value passed to replace() alone in modules that were imported before the session, and in the module
        # that defines the value. Only a module imported during the session can have copied the value from the slot.
        # A wrapper of ours is restored everywhere: an older module may have been reloaded.
        is_foreign = not is_ours(thing) and (
            holder.root not in came or holder.root == getattr(thing, "__module__", None)
        )
        if slot is None or holder.root is None or is_foreign or slot.key in originals:
            continue
        try:
            put(slot, originals_of[id(holder.thing)])
        except Exception as error:  # collected: the other copies follow
            if is_interrupt(error):
                raise
            collect(error)


def _target(slot: Slot, own: Any) -> Any:
    """Return the object that a patch is to reach; ``own`` as in ``check``."""
    return inner(beneath(slot) if own is ABSENT else own)


def _own_places(change: Any) -> set[tuple[Any, ...]]:
    """Return the keys of the places in which a wrapper, a factory, or a derived value keeps the original."""
    if isinstance(change, type):
        own = {("attribute", id(change), name) for name in vars(change)}
        return own.union(*(_own_places(inner(value)) for value in vars(change).values() if value is not change))
    cells = change.__closure__ or () if type(change) is FunctionType else ()
    return {("attribute", id(cell), "cell_contents") for cell in cells}
