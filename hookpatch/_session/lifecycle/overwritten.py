"""Compare the slot of an applied layer with the expected value, and put the difference into words."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.kept import keeps, names_in
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.slot import ABSENT, Slot, inner


def overwriting_value(site: Site, layer: Layer, before: str | None) -> str | None:
    """Return by which value, from which file and line, other code overwrote a slot; None if no other code did.

    ``before``: the text to return if the owner raises an error.
    """
    try:
        slot_and_value = site.overwritten_by(layer)
        return None if slot_and_value is None else in_words(*slot_and_value)
    except Exception as error:
        if is_interrupt(error):
            raise
        return before


def covering_value(site: Site, layer: Layer) -> str | None:
    """Return by which value other code covers a patched method of a class in an instance; None without one.

    Looks at all objects: for ``why()`` alone.
    """
    slots = [] if layer.only is None else layer.only.entries()
    ranks = {slot: {own.rank for own in site_at(slot).layers} for slot in slots}
    covering = covering_values([slot for slot in slots if layer.rank not in ranks[slot]], site.values_of(layer))
    return in_words(*covering[0]) if covering else None


def covering_values(slots: Iterable[AttributeSlot], our_values: Iterable[Any]) -> list[tuple[Slot, Any]]:
    """Return the slots of instances with a foreign value that does not call the patched method of the class.

    A function that uses the name of the method counts as calling the method: by ``super()``, or by a class.
    """
    ours = {id(inner(value)) for value in our_values}
    covering: list[tuple[Slot, Any]] = []
    for slot in slots:
        value = own_beneath(slot)
        function = inner(value)
        names = names_in(function.__code__) if type(function) is FunctionType else ()
        calls_on = slot.name in names or keeps(value, lambda referent: id(inner(referent)) in ours)
        if value is not ABSENT and not calls_on:
            covering.append((slot, value))
    return covering


def in_words(slot: Slot, value: Any) -> str:
    """Return in words which value other code wrote into a slot."""
    if value is ABSENT:
        return f"other code deleted {slot}"
    with imports.for_ourselves():
        from hookpatch._engine.source import location  # slow to import, and rarely needed
    if isinstance(value, CodeType):
        whose = f"{slot}" if isinstance(slot, FunctionSlot) else f"hookpatch's wrapper in {slot}"
        return (
            f"other code changed the code of {whose}: the present code is from "
            f"{value.co_filename}:{value.co_firstlineno}"
        )
    place = location.location(value)
    return f"other code wrote {location.in_words(value)}{f' ({place})' if place else ''} into {slot}"
