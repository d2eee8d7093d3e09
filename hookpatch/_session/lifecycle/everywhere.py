"""Look at all objects once for all patches with reach="everywhere" of a session: at the opening and at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.kept import keeps
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.resolve import resolve
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._session.ledger import Ledger, Requested


def look_for_holders(ledger: Ledger, values: list[Any]) -> None:
    """Note the holders of objects in the ledger."""
    _search(ledger, values, changes_of(ledger, None))


def _search(ledger: Ledger, objects: Sequence[Any], changes: Any) -> None:
    if any(entry.request.patch.is_around_calls for entry in ledger.entries):
        imports.fetch_ours("hookpatch._engine.site.proxy")  # first: after an import the search is repeated
    ledger.holders = reach().find(objects, changes.values)


def changes_of(ledger: Ledger, moment: object) -> Any:
    """Return the callables and values of all patches of a session: see ``Changes``.

    ``moment``: the spec of a module executed just now, the same for all patches of the module; None while the session
    is opened.
    """
    if (changes := ledger.changes) is None or changes[0] is not moment:
        ledger.changes = changes = moment, reach().Changes(entry.request.patch.change for entry in ledger.entries)
    return changes[1]


def everywhere_from(request: Requested, slot: Slot, own: object, changes: Any = None) -> Any:
    """Return the finder of the other places of a patch; ``own``: the value in the slot without our layers.

    ``changes``: see ``changes_of``; None for a patch alone.
    """
    patch, rooms = request.patch, reach()
    return rooms.Everywhere(patch, slot, own, request.goes_to, changes or rooms.Changes([patch.change]), request.home)


def are_in_place(requests: Sequence[Requested]) -> bool:
    """Return True if all functions that were changed in place are so, too, beside the other patches of a session."""
    preparations = [(request, request.patch._prepared) for request in requests]
    homes = [(request, preparation.home) for request, preparation in preparations if preparation and preparation.home]
    if not homes:
        return True
    changes = reach().Changes(request.patch.change for request in requests)
    return all(everywhere_from(request, home, home.read(), changes).is_in_place for request, home in homes)


def shared_holders(ledger: Ledger, request: Requested, everywhere: Any, anew: bool) -> Any:
    """Return the holders of the objects of several patches, ``everywhere`` among them; None for a patch alone.

    ``anew``: the module of the target was executed just now.
    """
    if anew:
        _look_for_others(ledger, request, everywhere)
    # Read once: the end of an import in another thread forgets the holders.
    if (search := ledger.holders) is not None and search.modules != imports.latest():  # a factory has imported a module
        _search(ledger, search.objects, everywhere.changes)
    return ledger.holders


def _look_for_others(ledger: Ledger, request: Requested, everywhere: Any) -> None:
    """Look for the holders of all objects that waiting patches take from the module of a request, if there are any."""
    name = request.patch.module
    module = None if name is None else imports.module_named(name)
    if module is None or ledger.holders is not None or not everywhere.searched_objects():
        return
    requests = [entry.request for entry in ledger.entries if entry.state == "waiting"]
    companions = [companion for companion in requests if _goes_everywhere_from(name, companion.patch)]
    objects: list[Any] = []  # no list beside: another list would be a holder, too
    for companion in companions:
        objects += _objects_of(companion, module, everywhere.changes)
    if len(objects) > 1 and any(companion is request for companion in companions):
        _search(ledger, objects, everywhere.changes)
        imports.afterwards(ledger.forget_looks)


def _goes_everywhere_from(module: str | None, patch: Patch) -> bool:
    return patch.reach == "everywhere" and patch.module == module and patch.source is None  # a source may come later


def _objects_of(request: Requested, module: ModuleType, changes: Any) -> list[Any]:
    """Return the objects of a patch for the search; none if the patch does not fit, which the patch will say itself."""
    patch = request.patch
    if patch.is_rule or patch.target is None:
        return []
    try:
        slot = resolve(patch.target, module, request.owner)
        own = own_beneath(slot)
        objects: list[Any] = everywhere_from(request, slot, own, changes).searched_objects()
    except Exception as error:
        if is_interrupt(error):
            raise
        return []
    return objects


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
        if not site.layers and site.may_be_copied(former) and not _leaves_our_value(site, former)
    }
    first = {id(former.value): former for former in reversed(copied.values())}
    if by_value := {id(former.value): first[id(former.value)] for former in formers.values()}:
        owners = [(site.slot.owner, site.slot) for site in formers if issubclass(type(site.slot.owner), ModuleType)]
        names = {(owner.__name__, getattr(slot, "name", "")) for owner, slot in owners}
        former_values = [inside for former in by_value.values() for inside in _with_function(former)]
        reach().restore_copies(former_values, imported_before, names, errors.append)


def _with_function(former: Former) -> list[Former]:
    """Return the former state, and of a static or class method also its function: foreign code may hold either."""
    if is_proxy(former.value):
        return [former]
    of_function = Former(inner(former.value), inner(former.original))
    return [of_function] if of_function.value is former.value else [former, of_function]


def _leaves_our_value(site: Site, former: Former) -> bool:
    """Return True if our value stays in foreign hands after the end, for a name that the owner has not itself.

    A foreign value over the slot may write our value back: then the late restore deletes the name. If the base class
    has got another method since the patch, our ended wrapper finds that method.
    """
    slot = site.slot
    if site.original is not ABSENT:
        return False
    if not site.is_restored:
        return True
    if former.original is ABSENT or slot.in_class is None:
        return False
    base, method = inner(site.base), inner(former.original)
    if inner(slot.inherited()) is not method:
        return True  # a wrapper of ours over the method of the base class
    return base is not method and not keeps(base, lambda kept: inner(kept) is method)


def reach() -> Any:
    """Return the module with the search for holders, imported now: most patches need no search."""
    with imports.for_ourselves():
        from hookpatch._engine.site import reach
    return reach
