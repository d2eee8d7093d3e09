"""Compare the slot of an applied layer with the expected value, and put the difference into words."""

from __future__ import annotations

from types import CodeType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.site.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import ABSENT, Slot


def overwriting_value(site: Site, layer: Layer, before: str | None) -> str | None:
    """Return by which value, from which file and line, other code overwrote a slot; None if no other code did.

    ``before``: the text to return if the owner raises an error.
    """
    try:
        slot_and_value = site.overwritten_by(layer)
        return None if slot_and_value is None else _in_words(*slot_and_value)
    except Exception as error:
        if is_interrupt(error):
            raise
        return before


def _in_words(slot: Slot, value: Any) -> str:
    if value is ABSENT:
        return f"other code deleted {slot}"
    with imports.for_ourselves():
        from hookpatch._engine.source.location import in_words, location  # slow to import, and rarely needed
    if isinstance(value, CodeType):
        whose = f"{slot}" if isinstance(slot, FunctionSlot) else f"hookpatch's wrapper in {slot}"
        return (
            f"other code changed the code of {whose}: the present code is from "
            f"{value.co_filename}:{value.co_firstlineno}"
        )
    place = location(value)
    return f"other code wrote {in_words(value)}{f' ({place})' if place else ''} into {slot}"
