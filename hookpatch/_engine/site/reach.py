"""Find the slots of a patch with reach="everywhere": the names and places that already hold the target's object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.trampoline import HOOK
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.module_lookup import fixed_part, presence_of
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.site.doubts import doubts_around
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.layers.changes import Changes, own_keys
from hookpatch._engine.site.layers.layer import derived
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import over, patched, site_at
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.site.stand_in import binds, is_our_wrapper
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot, innermost
from hookpatch._engine.slots.guard import getter_of
from hookpatch._engine.slots.holders import Holder, holders
from hookpatch._engine.slots.originals import is_patched, own_beneath
from hookpatch._engine.slots.part import ClassSlot, PartSlot
from hookpatch._engine.slots.referrers import lists_references
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, write_or_delete
from hookpatch._engine.slots.trial import THIS_PYTHON, functions_change_inside
from hookpatch.errors import TargetRefused


@final
@dataclass(frozen=True, slots=True)
class Found:
    """The holders of some objects, and the keys of the slots that patches keep for themselves.

    Attributes:
        objects: the objects searched for.
        patched_with: by id, the callables and values of patches, kept alive: a dead function's cell has no name.
        modules: the modules at the time of the search, see ``imports.latest``.
    """

    holders: Sequence[Holder]
    objects: Sequence[Any]
    own: frozenset[tuple[Any, ...]]
    patched_with: Mapping[int, Any]
    modules: tuple[int, str]


def find(referents: Sequence[Any], changes: Iterable[Any]) -> Found:
    """Search for the holders of objects; ``changes``: the callables and values of the session's patches."""
    modules = imports.latest()
    layers = [layer for site in patched() for layer in site.layers]
    applied = [value for layer in layers for value in (layer.patch.change, *layer.values_in_slots)]
    every = {id(change): change for change in (*changes, *applied, *derived())}
    own = own_keys(every.values())  # first: the holders found refer to the objects that nothing else refers to
    return Found(holders(referents), (*referents,), own, every, modules)


@final
@dataclass(frozen=True, slots=True)
class Everywhere:
    """One patch with reach="everywhere" and the slot of its target.

    Attributes:
        own: the slot's own value without our layers, or ABSENT.
        goes_to: returns True if the patch goes to the values of a module, given by name; None for a place without one.
        changes: of the session.
        home: the module of the patch's plugin, None without a plugin.
    """

    patch: Patch
    slot: Slot
    own: Any
    goes_to: Callable[[str | None], bool]
    changes: Changes
    home: str | None

    def check(self, owner: str) -> None:
        """Refuse a patch that cannot go everywhere.

        Raises:
            TargetRefused: the slot holds a value that other code may hold by chance, the patch removes, or a module
                named in ``only_in`` does not exist.
        """
        referent, is_in_place = self._referent, self.is_in_place
        remedy = "take reach='slot', and one patch for each place"
        if self.patch.verb == "remove":
            problem = "reach='everywhere' cannot remove: lists and defaults would get shorter"
            remedy = "write a remove for each name"
        elif missing := next(filter(None, map(_missing, self.patch.only_in)), None):
            problem, remedy = f"only_in= names the modules to go to, and {missing}", "correct the name"
        elif self.own is ABSENT:
            return
        elif not (functions_change_inside() if is_in_place else lists_references()):
            problem = f"reach='everywhere' relies on what {THIS_PYTHON} does otherwise than hookpatch knows"
        elif is_in_place and HOOK in own_beneath(FunctionSlot(referent, binds=False)).co_varnames:
            problem, remedy = (
                f"its variable {HOOK} has the name reserved for hookpatch in a changed function",
                "take reach='slot'",
            )
        elif is_in_place and (editor := _edits(self.slot)) is not None:
            problem = f"{self.slot} holds a copy of the function that {editor} has edited with reach='slot'"
            remedy = "take reach='slot', too, or edit with reach='everywhere'"
        elif not is_recognisable(referent) or isinstance(referent, ModuleType):
            problem = f"reach='everywhere' looks for who holds an object, and {a_kind(referent)} may be held by chance"
        else:
            return
        raise TargetRefused(self.patch.address, owner, f"{problem}; {remedy}")

    @property
    def _referent(self) -> Any:
        """The object to reach; for an edit the function inside the decorators."""
        return innermost(self._shown) if self.patch.verb == "edit" else self._shown

    @property
    def _shown(self) -> Any:
        """The slot's value as users see the value; for calls and edits of a property the getter."""
        getter = getter_of(self.own) if self.patch.is_around_calls or self.patch.verb == "edit" else None
        return inner(self.own) if getter is None else getter

    @property
    def doubts(self) -> tuple[str, ...]:
        """In words, the decorators around an edited function, and a cache of the results of a function in place."""
        return () if self.own is ABSENT else doubts_around(self.patch, self.slot, self._shown)

    @property
    def is_in_place(self) -> bool:
        """True for a Python function, unless a holder needs the original and places are patched one by one."""
        referent = self._referent
        if type(referent) is not FunctionType or self.patch.is_narrowed:
            return False
        if self.patch.verb == "edit":
            return True
        if self.changes.keep(referent, self.slot):
            return False
        return not self.home or self.goes_to(self.home) or not self.changes.have_named(referent, self.home)

    @property
    def first(self) -> Slot:
        """The slot of the target itself: the code of a Python function changed in place, else the slot."""
        return FunctionSlot(self._referent, binds(self.slot, self.own)) if self.is_in_place else self.slot

    def searched_objects(self) -> list[Any]:
        """Return the objects for the search of holders; empty for a Python function changed in place."""
        return [] if self.own is ABSENT or self.is_in_place else [self._referent]

    def places(self, found: Found | None) -> list[tuple[Slot, str | None]]:
        """Return the slots of the patch, each with the place in words; None in place of words for the target itself.

        A Python function is changed in place, for all holders. Of other objects the holders are patched where
        possible. An inherited object belongs to another owner, and other holders are left alone: only the slot is
        patched.

        Args:
            found: the holders of this object and others, if a search for several patches was made just now.
        """
        slot, own, referent = self.slot, self.own, self._referent
        if own is ABSENT or self.is_in_place:
            return [(self.first, None)]
        changes = [self.patch.change, *self.changes.values]
        if found is None or not any(sought is referent for sought in found.objects):
            found = find([referent], changes)
        is_meant = not self.patch.is_narrowed or self.patch.goes_to(self.patch.module)
        slots: dict[tuple[Any, ...], tuple[Slot, str | None]] = {slot.key: (slot, None)} if is_meant else {}
        for site in over(referent):
            is_reached = not self.patch.is_narrowed or self.goes_to(_module_of(site.slot))
            if is_reached and not isinstance(site.slot, ClassSlot):
                slots.setdefault(site.slot.key, (site.slot, str(site.slot)))
        for holder in [holder for holder in found.holders if holder.thing is referent]:
            is_nameless = holder.root is None and isinstance(holder.slot, PartSlot)  # a tuple without a name
            if holder.slot is not None and not is_nameless and self.goes_to(holder.root):
                slots.setdefault(holder.slot.key, (holder.slot, holder.words))
        if issubclass(type(referent), type) and self.patch.verb in ("replace", "derive") and not self.patch.is_narrowed:
            instances = ClassSlot(referent)
            if count := len(instances.living(referent, site_at(instances).value)):
                slots[instances.key] = instances, f"{count} living instance{'s' * (count > 1)} of {describe(referent)}"
        left_out = {place.key_in_dict for place, _ in slots.values() if isinstance(place, AttributeSlot)}
        left_out |= {("part", 0, *slot.key)} if referent is not own else set()
        came = (change for change in (*changes, *derived()) if id(change) not in found.patched_with)
        left_out |= (found.own | own_keys(came)) - {slot.key}
        return [place for key, place in slots.items() if key not in left_out]

    def places_in(self, module: ModuleType, sites: Sequence[Site]) -> list[tuple[Slot, str]]:
        """Return the slots that hold the original in a module executed just now.

        In a module without the patch, the original is restored under names that hold a value of ours, copied from one
        of the ``sites``.
        """
        referent, name = self._referent, module.__name__
        goes = self.goes_to(name)
        wanted = {id(referent)} if goes else {id(inner(site.value)) for site in sites}
        names = [(key, value) for key, value in vars(module).copy().items() if id(value) in wanted]
        if goes:
            slots = [AttributeSlot(module, key) for key, _ in names]
            return [(slot, str(slot)) for slot in slots if slot.key != self.slot.key]
        for key, value in names:
            slot = AttributeSlot(module, key)
            if not is_patched(slot) and (is_our_wrapper(value) or _is_from(sites, slot, value)):
                slot.write(referent)
        return []


def _is_from(sites: Sequence[Site], slot: AttributeSlot, value: Any) -> bool:
    """Return True if the source of a module shows that a value comes from one of the sites, and not from elsewhere."""
    from hookpatch._engine.patch.bound_names import is_copied, is_imported_from  # parse source, and are rarely needed

    of_modules = [site.slot for site in sites if issubclass(type(site.slot.owner), ModuleType)]
    sources = {(place.owner.__name__, getattr(place, "name", "")) for place in of_modules}
    is_from = is_copied if is_recognisable(value) else is_imported_from  # None and numbers are held by chance
    return is_from(value, slot.owner.__name__, slot.name, sources)


def restore_copies(
    former_values: Iterable[Former],
    imported_before: Mapping[str, object],
    names: Collection[tuple[str, str]],
    collect: Callable[[Exception], None],
) -> None:
    """Restore the original in modules executed in a session that copied our value from a slot.

    ``names``: the module and name of each patched slot; ``collect`` takes an error of an owner.
    """
    came = imports.executed_since(imported_before)
    originals_of = {
        id(former.value): former.original
        for former in former_values
        if former.value is not former.original
        and (is_our_wrapper(former.value) or (came and is_recognisable(former.value)))
    }
    if not originals_of:
        return
    from hookpatch._engine.patch.bound_names import is_copied  # parses source, and is rarely needed

    for holder in holders([former.value for former in former_values if id(former.value) in originals_of]):
        slot, our_value = holder.slot, holder.thing
        # Leave a value passed to replace() alone in modules that were imported before the session, and in the module
        # that defines the value. Only a module executed during the session can have copied the value from the slot: its
        # source decides. Of a module executed anew we know the name. A wrapper of ours is restored everywhere.
        is_foreign = not is_our_wrapper(our_value) and (
            holder.root not in came
            or holder.root == getattr(our_value, "__module__", None)
            or (holder.root in imported_before and (holder.root, getattr(slot, "name", "")) not in names)
            or not is_copied(our_value, holder.root, getattr(slot, "name", ""), names)
        )
        if slot is None or holder.root is None or is_foreign or is_patched(slot):
            continue
        if isinstance(slot, PartSlot) and (originals_of[id(our_value)] is ABSENT or slot.read() is not our_value):
            continue  # a method bound to an added function, or a part of a whole that is restored by now
        try:
            write_or_delete(slot, originals_of[id(holder.thing)])
        except Exception as error:  # collected: the other copies follow
            if is_interrupt(error):
                raise
            collect(error)


def _edits(slot: Slot) -> str | None:
    """Return the owner of an edit of a slot's function, in words."""
    layers = site_at(slot).layers if is_patched(slot) else ()
    return next((layer.owner for layer in layers if layer.patch.verb == "edit"), None)


def _missing(pattern: str) -> str:
    """Return in words the missing module of a pattern; empty if all modules may exist."""
    return presence_of(name).missing if (name := fixed_part(pattern)) else ""


def _module_of(slot: Slot) -> str | None:
    """Return the name of the module to which a slot of a module or class belongs."""
    if isinstance(slot.owner, ModuleType):
        return slot.owner.__name__
    return None if slot.in_class is None else slot.in_class.__module__
