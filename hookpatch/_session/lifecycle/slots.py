"""A patch of one slot, or with reach="everywhere" of all places with the same object: checked, applied, kept."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.trampoline import is_changed_in_place
from hookpatch._engine.patch.patch import GIVING_VERBS, Patch
from hookpatch._engine.patch.target import Attribute
from hookpatch._engine.site.doubts import doubts
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at, site_of
from hookpatch._engine.slots import guard
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.lazy import KNOWS_LAZY, is_lazy
from hookpatch._engine.slots.originals import is_patched, own_beneath
from hookpatch._engine.slots.resolve import has_value, resolve
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, is_class_of_program
from hookpatch._engine.slots.trial import PROXIES, functions_stand_in
from hookpatch._session.ledger import Requested
from hookpatch._session.lifecycle.applied import AppliedLayer
from hookpatch._session.lifecycle.everywhere import changes_of, everywhere_from, shared_holders
from hookpatch._session.lifecycle.layers import LayersLifecycle
from hookpatch._session.lifecycle.prepared import Prepared, is_plain, is_usual, keep
from hookpatch.errors import HookpatchError, PatchUnneededWarning, warn

_NOWHERE: Final = "no module that only_in= and except_in= allow holds the target"


class SlotLifecycle(LayersLifecycle):
    """The lifecycle of a patch of one slot, or of all places that hold the slot's object."""

    __slots__ = ()

    # --- does the patch fit?

    def check(self) -> list[Any]:
        """See ``Lifecycle``."""
        super().check()
        patch = self._patch
        module = imports.present(patch.module) if patch.module is not None else None
        if not patch.required or (module is None and patch.module is not None) or self._prepared(module) is not None:
            return []
        try:
            guard.check_patch(patch, self._scope, self._owner)
            return self._check_target(module)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise

    def place(self, module: ModuleType | None) -> Slot:
        """Return the slot of the layer at the target: the target's function changed in place, or the target's slot.

        Raises if the patch does not fit the slot; changes nothing.
        """
        slot, _, everywhere = self._checked_slot(module, anew=False)
        return slot if everywhere is None else everywhere.first

    def _check_target(self, module: ModuleType | None) -> list[Any]:
        slot, _, everywhere = self._checked_slot(module, anew=False)
        if self._drift is not None and self._drift.policy == "error":
            self._drift.compare(self._patch, slot, self._owner)
        return [] if everywhere is None else everywhere.searched_objects()

    def _checked_slot(self, module: ModuleType | None, anew: bool) -> tuple[Slot, Any, Any]:
        """Return the slot of the target, the owner's own value without our layers, and the finder of other places.

        The finder is None for a patch of the slot alone. Raises if the patch does not fit.
        """
        slot = self._slot(module, anew)
        own = own_beneath(slot)
        if not (self._patch.is_for_absent and has_value(slot, own)):
            self._take_source()
        patch = self._patch
        guard.check_slot(patch, slot, own, self._owner)
        if patch.reach == "slot":
            return slot, own, None
        changes = changes_of(self._ledger, imports.spec(module) if anew else None)
        everywhere = everywhere_from(self._request, slot, own, changes)
        everywhere.check(self._owner)
        return slot, own, everywhere

    def _slot(self, module: ModuleType | None, anew: bool) -> Slot:
        target = self._patch.target
        assert target is not None  # only enter and the source of a module have no target
        slot = resolve(target, module, self._owner)
        if anew:
            site_at(slot).refresh()  # first: a site with layers still has the old original
        return slot

    # --- a patch that fits as before

    @property
    def _is_simple(self) -> bool:
        """True if module and slot alone decide whether the patch fits."""
        return self._drift is None and self._scope == "process" and not self._patch.is_narrowed

    def _prepared(self, module: ModuleType | None) -> tuple[Any, ...] | None:
        """Return the arguments of ``_lay`` for a patch that fits as before; None if the fit is unknown."""
        preparation = self._patch._prepared if self._is_simple else None
        if preparation is None or not preparation.holds(module):
            return None
        if (home := preparation.home) is None:
            return preparation.site, preparation.own
        own, changes = home.read(), changes_of(self._ledger, None)
        is_in_place = everywhere_from(self._request, home, own, changes).is_in_place
        return (preparation.site, None, None, (home, own)) if is_in_place else None

    def adopt(self, preparation: Prepared, applied_at: float) -> None:
        """Take over a patch applied without a lifecycle, with the time of applying."""
        assert preparation.applied is not None  # made when the patch was applied
        assert preparation.watch is not None
        self._watch, applied = preparation.watch, preparation.applied
        self._placed[applied.site] = applied
        self._note(applied, None if preparation.home else preparation.own)
        self._entry.applied_at = applied_at
        applied.layer.notes = applied
        self._watch.call_back(self.arrive)

    # --- applied

    def _guarded(self, module: ModuleType | None, anew: bool) -> None:
        is_in_time = not (anew or self._late or imports.how_late(self._patch.module))
        if is_in_time and (place := self._prepared(module)) is not None:
            self._warnings = guard.unchecked(self._patch)
            return self._lay(*place)
        return super()._guarded(module, anew)

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch to the slot, and to all other places of the patch, if the patch fits."""
        if anew:
            self._settle_copies()
        slot, own, everywhere = self._checked_slot(module, anew)
        patch = self._patch
        callee = inner(slot.inherited() if own is ABSENT else own) if patch.is_around_calls else None
        if type(callee) is FunctionType and not functions_stand_in():
            self._warnings = (*self._warnings, PROXIES)
        self._warnings = (*self._warnings, *doubts(patch, slot, own, callee))
        if self._is_skipped(slot):
            return
        places = [(slot, None)]
        if everywhere is not None:
            self._warnings = (*self._warnings, *everywhere.doubts)
            places = everywhere.places(shared_holders(self._ledger, self._request, everywhere, anew))
            if (twin := self._twin_at(places[0][0] if places else slot)) is not None:
                self._warnings = (*self._warnings, f"runs once more in each call: {twin} names the same value")
        if patch.is_narrowed:
            self._follow_imports(everywhere, inner(own))
        if not places:
            self._entry.become("waiting", _NOWHERE)
        for place, words in places:
            try:
                is_inside = isinstance(place, FunctionSlot)
                home = (slot, own) if is_inside else None
                self._lay(site := site_at(place), None if is_inside else inner(own), words, home)
            except Exception as error:
                if words is None or is_interrupt(error):
                    raise  # the target itself; a report lists other places as stale
        if self._is_simple and not self._warnings and (everywhere is None or isinstance(site.slot, FunctionSlot)):
            keep(patch, module, slot, own, site)

    def _twin_at(self, slot: Slot) -> str | None:
        """Return the address of a patch of this session that runs the same function at a slot; None without such."""
        twins = [
            layer.patch.address
            for layer in site_at(slot).layers
            if layer.patch.verb in ("wrap", "derive") and layer.patch.change is self._patch.change
            if layer.rank[0] == self._rank[0] and layer.patch.address != self._patch.address
        ]
        return twins[0] if twins else None

    def _lay(
        self, site: Site, original: object, words: str | None = None, home: tuple[Slot, Any] | None = None
    ) -> None:
        """Put a layer on a site, and note the original; ``home``: the target, if the function is changed in place."""
        patch = self._patch
        if original is not None and patch.reach == "everywhere":
            self._ledger.note_modules()
        applied, tally = self._layer(site)
        if words is not None and isinstance(site.slot.owner, ModuleType):
            applied.spec = imports.spec(site.slot.owner)
        layer = applied.layer
        if not self._place(applied):
            return

        def note() -> None:
            self._note(applied, original, words)
            self._entry.tally = tally

        if home is not None:
            for former in self._placed.values():  # of the module before a reload: the target holds another function
                former.layer.home = None
            layer.home = home
        self._commit(applied, note)
        self._await_library(site, layer)
        is_of_value = patch.verb not in GIVING_VERBS  # an argument may take effect later, when another patch ends
        is_expected = patch.is_for_absent
        if words is None and is_of_value and layer.without_effect and site.layers == (layer,) and not is_expected:
            message = f"{patch.address} of {layer.owner}: {layer.without_effect}"
            warn(PatchUnneededWarning(message))
        self._warn_of_hidden(applied)

    def _note(self, applied: AppliedLayer, original: object, words: str | None = None) -> None:
        entry = applied.entry = self._next_entry()
        entry.become("applied")
        entry.place, entry.original, entry.our_values = words, inner(original), applied.layer.values_in_slots
        entry.warnings, entry.without_effect = () if words else self._warnings, applied.layer.without_effect
        entry.applied = applied

    def _follow_imports(self, everywhere: Any, original: Any) -> None:
        """Patch the values held by each module imported from now on, if the patch goes to the module."""
        target = site_at(everywhere.slot)

        def arrive(module: ModuleType) -> None:
            for slot, words in everywhere.places_in(module, [target, *self._placed]):
                try:
                    self._lay(site_at(slot), original, words)
                except Exception as error:
                    if is_interrupt(error):
                        raise  # else a report lists the place as stale
            imports.afterwards(self._ledger.notify)

        if self._further_watch is not None:
            self._further_watch.cancel()
        self._watch_further(imports.Watch(imports.ANY, arrive))


def prepare(request: Requested) -> Prepared | None:
    """Prepare a new patch of an attribute as an opening with locks does; return None if the opening must decide.

    No lock is taken and no slot is written: ``Prepared.begin`` compares the stamp with the slot.
    """
    patch = request.patch
    target, name = patch.target, patch.module
    if target is None or name is None or not is_usual(patch):
        return None
    *way, step = target.steps
    if patch.requires is not None or patch.until is not None or len(way) > 1 or type(step) is not Attribute:
        return None
    module = owner = imports.loaded(name)
    class_: str | None = None
    if module is None or not issubclass(type(module), ModuleType):
        return None
    for first in way:
        if type(first) is not Attribute:
            return None
        owner = vars(module).get(class_ := first.name)
        if not is_class_of_program(owner) or is_patched(AttributeSlot(module, class_)):
            return None
    slot = AttributeSlot(owner, step.name)
    own = slot.read()
    if own is ABSENT or (KNOWS_LAZY and is_lazy(own)) or is_patched(slot) or not _can_be_taken(patch, own):
        return None
    if not is_plain(patch, slot, own) or doubts(patch, slot, own, inner(own)):
        return None
    try:
        guard.check_slot(patch, slot, own, request.owner)
        if patch.reach == "everywhere":
            return _prepare_in_place(request, module, class_, slot, own)
    except Exception as error:
        if is_interrupt(error):
            raise
        return None
    return Prepared(module, class_, site_of(slot), own, is_plain=True, is_first=True)


def _prepare_in_place(
    request: Requested, module: ModuleType, class_: str | None, slot: AttributeSlot, own: object
) -> Prepared | None:
    """Prepare a patch of a Python function changed in place; raise if the patch cannot go everywhere."""
    patch = request.patch
    if patch.is_narrowed or not patch.is_around_calls or type(own) is not FunctionType:
        return None
    everywhere = everywhere_from(request, slot, own)
    everywhere.check(request.owner)
    function_slot = everywhere.first
    if not isinstance(function_slot, FunctionSlot) or everywhere.doubts:
        return None
    site = site_of(function_slot)
    if site.layers:
        return None
    return Prepared(module, class_, site, own.__code__, is_plain=True, is_first=True, home=slot)


def _can_be_taken(patch: Patch, own: object) -> bool:
    """Return True if a value can be replaced, or called by a stand-in, without a further look."""
    if type(own) is not FunctionType:
        return patch.verb == "replace"
    return not is_changed_in_place(own) and (patch.verb == "replace" or functions_stand_in())
