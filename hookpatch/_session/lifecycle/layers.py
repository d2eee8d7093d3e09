"""Lay the layers of a patch over sites, and restore all of them: no layer comes after the end, none is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import _getframe
from types import FunctionType, ModuleType
from typing import Any, Final
from weakref import ref

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import Begun, is_interrupt
from hookpatch._engine.patch.patch import MAKING_VERBS, Patch, Wrapper
from hookpatch._engine.site.effect import newly_hidden
from hookpatch._engine.site.layers.call_count import Tally, counters
from hookpatch._engine.site.layers.layer import Gate, Layer, Only
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.slot_state import Former
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._plugins import notify
from hookpatch._session import task
from hookpatch._session.ledger import Entry
from hookpatch._session.lifecycle.applied import AppliedLayer, undo
from hookpatch._session.lifecycle.everywhere import is_of_imported_module
from hookpatch._session.lifecycle.lifecycle import Formers, Lifecycle
from hookpatch.errors import DriftWarning, PatchUnneededWarning, warn


class LayersLifecycle(Lifecycle):
    """The lifecycle of a patch with layers. A layer is in ``_placed`` before it is applied, and until it has ended."""

    __slots__ = ("_derived", "_further_watch", "_placed")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._placed: Final[dict[Site, AppliedLayer]] = {}
        self._further_watch: imports.Watch | None = None  # of other modules than the target's
        making = self._patch.verb in MAKING_VERBS
        self._derived: Final[dict[int, tuple[Any, Any]] | None] = {} if making else None

    @property
    def touched(self) -> list[Site]:
        """The sites of the patch's layers, for notifying plugins; empty for a patch of hookpatch itself."""
        return [] if self._request.plugin == "hookpatch" else list(self._placed)

    # --- the value of a source

    def _take_source(self) -> None:
        """Read the value of ``source=``; raise ApplyError if the address leads nowhere."""
        if self._patch.source is not None:
            with imports.for_ourselves():
                from hookpatch._engine.rules.expand import with_value_of_source  # few patches have a source
            self._patch = with_value_of_source(self._patch, self._owner)

    def arrive(self, module: ModuleType | None, late: str = "") -> None:
        """See ``Lifecycle``. A source that may import the target's package waits for the end of the import."""
        source, name = (self._patch.source or "").partition(":")[0], str(self._patch.module)
        package = name.partition(".")[0]
        is_begun = not source or imports.loaded(source) is not None or self._further_watch is not None
        if is_begun or name == package or imports.present(package) is not None:
            super().arrive(module, late)
        else:
            self._watch_further(imports.Watch(package, lambda _: self.arrive(imports.present(name), late)))

    # --- a layer: made, noted, applied

    def _layer(
        self, site: Site, only: Only | None = None, tally: Tally | None = None, patch: Patch | None = None
    ) -> tuple[AppliedLayer, Tally | None]:
        """Return a layer of the patch over a site, not applied yet, and its tally."""
        request, patch = self._request, patch or self._patch
        gate: Gate | None = partial(task.only_inside, self._rank[0]) if self._scope == "task" else None
        if only is not None:
            gate = partial(_only, only, gate)
        tally, gate, count = counters(patch, self._count, gate, tally)
        options = self._rank, gate, self._derived, request.distribution, count, only
        return AppliedLayer(site, Layer(patch, request.plugin, self._owner, *options)), tally

    def _place(self, applied: AppliedLayer) -> bool:
        """Note a layer before applying; return False if the session has ended, or the site has a layer of the patch."""
        site = applied.site
        applied.begun = Begun(_getframe(1))  # first: then an interrupt cannot leave a layer that seems applied
        earlier = self._placed.setdefault(site, applied)
        if earlier.was_interrupted:
            earlier.restore(self._request)
            self._placed[site] = earlier = applied
        if self._ended:
            applied.begun = None
            if earlier is applied:
                self._placed.pop(site, None)
            return False
        if earlier is not applied:
            applied.begun = None
            earlier.spec = applied.spec
            earlier.site.refresh()  # reloaded: the same module with new values
        return earlier is applied

    def _commit(self, applied: AppliedLayer, note: Callable[[], None]) -> None:
        """Apply a noted layer."""
        site, layer = applied.site, applied.layer
        layer.notes = applied
        applied.follow_copies()
        try:
            site.apply(layer, note)
        except Exception as error:
            layer.end()
            if applied.following is not None:
                applied.following.end()
            if not is_interrupt(error):  # else the session restores the layer
                self._placed.pop(site, None)
                applied.begun = None
            raise
        if applied.following is not None:
            applied.following.note_value()
        applied.begun = None

    def _warn_of_hidden(self, applied: AppliedLayer) -> None:
        """Warn of layers that no call reaches since a layer was applied."""
        for hidden, by in newly_hidden(applied.site, applied.layer):
            if not by.is_meant:
                message = f"{hidden.patch.address} of {hidden.owner}: {by.text}"
                warn(PatchUnneededWarning(message))

    def _watch_further(self, watch: imports.Watch) -> None:
        """Begin to watch other modules than the target's, until the end of the session."""
        self._further_watch = watch
        watch.begin()
        if self._ended:
            watch.cancel()

    def _await_library(self, site: Site, layer: Layer) -> None:
        """Pass a layer to the plugin for torch once torch is imported, if torch has caches to drop."""
        library = self._ledger.library
        if not library and notify.awaits_library(site, layer):
            watch = library.setdefault(None, notify.watch_of_library())
            watch.begin()
            if self._ended:
                watch.cancel()

    def _is_skipped(self, slot: Slot) -> bool:
        """Compare a slot with the lock file; return True if the patch is left out because the slot has changed."""
        patch = self._patch
        if self._drift is None or (reason := self._drift.compare(patch, slot, self._owner)) is None:
            return False
        if self._drift.policy == "skip":
            self._next_entry().become("skipped", reason)
            return True
        self._warn(reason, f"{reason} (target {patch.address} of {self._owner})", DriftWarning)
        return False

    # --- restored

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        if self._further_watch is not None:
            self._further_watch.cancel()
        try:
            self._settle_copies()
        except Exception as error:  # of the owner
            if is_interrupt(error):
                raise
            errors.append(error)
        touched += self.touched
        placed = list(self._placed.values())
        for site, entry in [(applied.site, applied.entry) for applied in self._homes_first()]:
            if self._patch.reach == "everywhere" and entry is not None and entry.original is not None:
                try:  # not as of the entry: the module may have been reloaded
                    own = beneath(site.slot) if site.original is ABSENT else site.original
                except Exception as error:  # of the owner
                    if is_interrupt(error):
                        raise
                    errors.append(error)
                else:
                    copied.setdefault(site, Former(site.value, own))
        for applied in reversed(placed):
            undo(applied, self._request, errors)

    def _settle_copies(self) -> None:
        """Take over the target's original in modules that were executed anew, and have copied our value again.

        Called before the original changes, and at the end.
        """
        for applied in [*self._placed.values()]:
            site = applied.site
            if applied.spec is ABSENT or applied.spec is (spec := imports.spec(site.slot.owner)):
                continue
            home = self._homes_first()[0].site
            if inner(site.slot.read()) is inner(home.value) and site.original is not home.original:
                site.slot.write(home.original)
                site.refresh()
            applied.spec = spec

    def _homes_first(self) -> list[AppliedLayer]:
        """Return the layers, first of the target: in the module of ``sys.modules``, else in the last one imported."""
        placed = [*self._placed.values()]
        placed.reverse()
        return sorted(placed, key=_rank) if len(placed) > 1 else placed

    def forget(self) -> None:
        """Forget the restored layers."""
        placed = list(self._placed.values())
        noted: set[int] = set()  # of a module executed anew, the layer lists the values of all executions
        for entry in [applied.entry for applied in placed if applied.entry is not None]:
            forget(entry, noted)
        for applied in placed:
            self._placed.pop(applied.site, None)


def _rank(applied: AppliedLayer) -> tuple[bool, bool]:
    is_of_place = applied.entry is None or applied.entry.place is not None
    return is_of_place, not is_of_imported_module(applied.site.slot)


def forget(entry: Entry, noted: set[int]) -> None:
    """Forget the objects that an entry holds for its looks: a session may be kept for the report alone.

    Values noted by an entry before are not noted again.
    """
    if entry.request.patch.verb in MAKING_VERBS:
        values = [inner(value) for value in entry.our_values if id(inner(value)) not in noted]
        noted.update(map(id, values))
        made = (ref(value) for value in values if isinstance(value, (FunctionType, type)))
        plain = (_returning(value) for value in values if type(value) in (int, float, str, bytes))
        entry.former = (*made, *plain)
    entry.original, entry.our_values = None, ()
    entry.applied = None


def _returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def _only(only: Only, gate: Gate | None, wrapper: Wrapper) -> Wrapper:
    return only.around(wrapper if gate is None else gate(wrapper))
