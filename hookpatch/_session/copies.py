"""Find our values in slots that have copied the values: ``from shop import price`` inside a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, ModuleType
from typing import TypeAlias

from hookpatch._engine.patch.target import Target
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.resolve import resolve
from hookpatch._engine.slots.slot import inner, write_or_delete
from hookpatch._session.lifecycle.everywhere import is_of_imported_module
from hookpatch.errors import ApplyError

OurValues: TypeAlias = dict[int, list[Site]]  # by the id of our value in the slots of the sites


def values_in(sites: Iterable[Site]) -> OurValues:
    """Return the sites with layers, by the id of our value in the slot."""
    values: OurValues = {}
    for site in sites:
        if site.layers and is_recognisable(site.value):
            values.setdefault(id(inner(site.value)), []).append(site)
    return values


def remove_copy(
    target: Target,
    module: ModuleType | None,
    values: OurValues,
    own: Sequence[Site] = (),
    former: Mapping[Site, Sequence[object]] = MappingProxyType({}),
) -> None:
    """Write the original into a slot that holds our value of another slot.

    A rule that matches both slots would else run twice at a call, and would leave our value there at the end. If one
    value is around several originals, the slot stays unchanged.

    Args:
        target: the address of the slot.
        module: the module of the address, executed just now if the rule has patched the slot before.
        values: our values.
        own: the sites of the slot, and of earlier slots at the address. ``replace`` puts one value into several slots:
            the value is a copy if the original of the slot was a copy, too.
        former: by site, the originals at the address from before the module was executed anew.
    """
    if not values or target.of_instances is not None:
        return
    with suppress(ApplyError):  # raised again when the patch is applied
        slot = resolve(target, module, "a rule")
        sites = values.get(id(inner(slot.read())), ())
        others = [site for site in sites if site not in own]
        if any(site in own for site in sites):
            copied = [site.original for site in own]
            others = [
                site
                for site in others
                if any(original is one for original in copied for one in (site.original, *former.get(site, ())))
            ]
        if len({id(site.original) for site in others}) > 1:  # of modules imported anew, take the module as of now
            others = [site for site in others if is_of_imported_module(site.slot)]
        if len({id(site.original) for site in others}) == 1 and all(site.slot.key != slot.key for site in others):
            write_or_delete(slot, others[0].original)
