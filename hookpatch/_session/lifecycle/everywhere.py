"""Look at all objects once for all patches with reach="everywhere" of a session: at the opening and at the end."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._session.ledger import Ledger


def look_for_holders(ledger: Ledger, values: list[Any]) -> None:
    """Note the holders of objects in the ledger."""
    ledger.holders = reach().holders(values)


def is_of_imported_module(slot: Slot) -> bool:
    """Return False if a slot belongs to a module that is no longer in ``sys.modules``."""
    owner = slot.owner
    return not issubclass(type(owner), ModuleType) or imports.module_named(owner.__name__) is owner


def restore_copies(copied: dict[Site, Former], imported_before: Mapping[str, object], errors: list[Exception]) -> None:
    """Restore the originals in modules that copied our values from the slots; collect the errors.

    Args:
        copied: the slots' values that a module may have copied.
        imported_before: the modules imported before the session, with their specs.
        errors: the list for the errors.
    """
    # A look at all objects takes long, and mostly no module has copied a value.
    formers = {
        site: former
        for site, former in copied.items()
        if not site.layers and site.may_be_copied(former) and not _inherits_wrapped(site, former)
    }
    first = {id(former.value): former for former in reversed(copied.values())}
    if by_value := {id(former.value): first[id(former.value)] for former in formers.values()}:
        owners = [(site.slot.owner, site.slot) for site in formers if issubclass(type(site.slot.owner), ModuleType)]
        names = {(owner.__name__, getattr(slot, "name", "")) for owner, slot in owners}
        reach().restore_copies(by_value.values(), imported_before, names, errors.append)


def _inherits_wrapped(site: Site, former: Former) -> bool:
    """Return True for a method of a base class that is now wrapped: our ended wrapper finds the wrapper of the base."""
    slot = site.slot
    return (
        former.original is not ABSENT
        and slot.in_class is not None
        and site.original is ABSENT
        and inner(slot.inherited()) is not former.original
    )


def reach() -> Any:
    """Return the module with the search for holders, imported now: most patches need no search."""
    with imports.for_ourselves():
        from hookpatch._engine.site import reach
    return reach
