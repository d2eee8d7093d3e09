"""reach="everywhere": which slots a patch goes to, for names that were bound before us."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from hookpatch import _imports
from hookpatch._beneath import beneath, originals
from hookpatch._function_slot import FunctionSlot
from hookpatch._holders import Holder, holders
from hookpatch._layer import derived
from hookpatch._leftover import is_recognisable
from hookpatch._part_slot import PartSlot
from hookpatch._patch import Patch
from hookpatch._sites import over
from hookpatch._slot import ABSENT, Slot, inner, put
from hookpatch._standing import binds, is_ours
from hookpatch._target import a_kind
from hookpatch.errors import TargetRefused


def check(patch: Patch, slot: Slot, own: Any, owner: str) -> None:
    """Refuse a patch that cannot go everywhere.

    Args:
        patch: the declaration.
        slot: the target's slot.
        own: what the slot's owner has there of its own, without our layers, or ABSENT.
        owner: who asks for it, for messages.

    Raises:
        TargetRefused: what the slot holds may stand anywhere by chance, or the patch would empty its holders.
    """
    if patch.reach == "slot":
        return
    thing = inner(_found(slot, own))
    if patch.verb == "remove":
        problem = "reach='everywhere' cannot remove: lists and defaults that hold it would get shorter"
        raise TargetRefused(patch.address, owner, f"{problem}; take one remove for each name")
    if not is_recognisable(thing) or isinstance(thing, ModuleType):
        problem = f"reach='everywhere' looks for who holds an object, and {a_kind(thing)} may be held by chance"
        raise TargetRefused(patch.address, owner, f"{problem}; take reach='slot', and one patch for each place")


def places(patch: Patch, slot: Slot, own: Any) -> list[tuple[Slot, str | None]]:
    """Return the slots that a patch goes to, each with its place in words where it is not the target itself.

    A Python function is changed inside, whoever holds it. Of everything else the holders are changed that can be.
    """
    if patch.reach == "slot":
        return [(slot, None)]
    held = _found(slot, own)
    thing = inner(held)
    if type(thing) is FunctionType:
        return [(FunctionSlot(thing, binds(slot, held)), None)]
    of_patches = [
        patch.change,
        *derived(),
    ]  # kept until the look is over: one that is garbage might go, and its cell not
    found: dict[tuple[Any, ...], tuple[Slot, str | None]] = {} if own is ABSENT else {slot.key: (slot, None)}
    for site in over(thing):
        found.setdefault(site.slot.key, (site.slot, str(site.slot)))
    for holder in holders([thing]):
        if holder.slot is not None and not _is_a_note(holder):
            found.setdefault(holder.slot.key, (holder.slot, holder.words))
    the_same = {("part", 0, *slot.key)} if thing is not held else set()
    return [place for key, place in found.items() if key not in the_same.union(*map(_of_its_own, of_patches))]


def _found(slot: Slot, own: Any) -> Any:
    """Return what a user finds there without our layers: names bound to that before us are to be reached."""
    return beneath(slot) if own is ABSENT else own


def call_back(
    gone: Iterable[tuple[Any, Any]], were_there: frozenset[str], collect: Callable[[Exception], None]
) -> None:
    """Give the original to modules that were executed in a session and copied what stood in a slot then.

    Args:
        gone: what stood in a slot and does not any more, each with the original that is to take its place.
        were_there: the names of the modules that were imported before; what those hold of a given value is not looked
            at. What we have made has no business anywhere: a module that was there may have been reloaded.
        collect: takes an error of an owner that cannot be set.
    """
    came = _imports.names() - were_there
    originals_of = {
        id(stood): original
        for stood, original in gone
        if stood is not original and (is_ours(stood) or (came and is_recognisable(stood)))
    }
    if not originals_of:
        return
    for holder in holders([stood for stood, _ in gone if id(stood) in originals_of]):
        slot, thing = holder.slot, holder.thing
        # A value that was given may be theirs by right; or it was not copied, it is from there.
        is_theirs = not is_ours(thing) and (
            holder.root not in came or holder.root == getattr(thing, "__module__", None)
        )
        if slot is None or holder.root is None or is_theirs or slot.key in originals:
            continue
        try:
            put(slot, originals_of[id(holder.thing)])
        except Exception as error:  # collected: the others follow
            collect(error)


def _is_a_note(holder: Holder) -> bool:
    """Tell whether a holder is a tuple or the like in something that has no name: what somebody noted down, no name."""
    return holder.root is None and isinstance(holder.slot, PartSlot)


def _of_its_own(change: Any) -> set[tuple[Any, ...]]:
    """Return the keys of places in which a wrapper, a factory, or what it has made, keeps the original for itself."""
    if isinstance(change, type):
        own = {("attribute", id(change), name) for name in vars(change)}
        return own.union(*(_of_its_own(inner(held)) for held in vars(change).values() if held is not change))
    cells = change.__closure__ or () if type(change) is FunctionType else ()
    return {("attribute", id(cell), "cell_contents") for cell in cells}
