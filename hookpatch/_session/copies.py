"""Find our values in slots that have copied the values: ``from shop import price`` inside a block."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import ModuleType
from typing import TypeAlias

from hookpatch._engine.patch.target import Target
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.resolve import resolve
from hookpatch._engine.slots.slot import inner, write_or_delete
from hookpatch.errors import ApplyError

OurValues: TypeAlias = dict[int, list[Site]]  # by the id of our value in the slots of the sites


def values_in(sites: Iterable[Site]) -> OurValues:
    """Return the sites with layers, by the id of our value in the slot."""
    values: OurValues = {}
    for site in sites:
        if site.layers and is_recognisable(site.stands):
            values.setdefault(id(inner(site.stands)), []).append(site)
    return values


def remove_copy(target: Target, module: ModuleType | None, values: OurValues) -> None:
    """Write the original into a slot that holds our value of another slot.

    A rule that matches both slots would else run twice at a call, and would leave our value there at the end. If one
    value lies over several originals, the slot is left alone.
    """
    if not values or target.of_instances is not None:
        return
    with suppress(ApplyError):  # raised again when the patch is applied
        slot = resolve(target, module, "a rule")
        sites = values.get(id(inner(slot.read())), ())
        if len({id(site.original) for site in sites}) == 1 and all(site.slot.key != slot.key for site in sites):
            write_or_delete(slot, next(iter(sites)).original)
