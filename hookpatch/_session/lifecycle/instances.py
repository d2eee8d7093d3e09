"""A patch of the instances of a class: layers over methods in the class, or over values in each instance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.imports import Watch
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.instances import prepare
from hookpatch._engine.instances.exchange import Exchange
from hookpatch._engine.instances.living import Living
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Target
from hookpatch._engine.site.call_count import Tally
from hookpatch._engine.site.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots import guard
from hookpatch._engine.slots.resolve import seen_from
from hookpatch._engine.slots.slot import Slot
from hookpatch._plugins import notify
from hookpatch._session.ledger import Entry, State
from hookpatch._session.lifecycle.applied import AppliedLayer, undo
from hookpatch._session.lifecycle.layers import LayersLifecycle, forget
from hookpatch._session.lifecycle.lifecycle import Gone
from hookpatch.errors import HookpatchError, PatchFailedWarning


def _nothing() -> None: ...


def _unheard(instance: object) -> None: ...


@final
@dataclass(slots=True, eq=False)
class AppliedInstances:
    """The layers of a patch over instances, or over the class. Each layer has an entry outside of all reports."""

    entry: Entry
    living: Living | Exchange
    deaf: Callable[[], object] = _nothing  # ends the hearing of new instances
    born: Callable[[Any], None] = _unheard  # called with each new instance
    hears_copies: bool = False
    library: Watch | None = None  # waits for torch, for all layers
    layers: dict[Site, AppliedLayer] = field(default_factory=dict)  # GIL: a change is one operation

    def look(self) -> None:
        """Note the state of all instances as the state of the patch."""
        for applied in list(self.layers.values()):
            applied.look()
        states = self._states()
        self.entry.compared(self._where("overwritten") if "overwritten" in states else None)
        self.entry.instances = self.living.count()
        self.entry.left_out = self.living.meant.left_out()

    def differences(self) -> list[str]:
        """Return in words the side effects of the patch on a call: the same for all instances."""
        return next((applied.differences() for applied in list(self.layers.values())), [])

    def ended(self) -> None:
        """Note the worst ending of all layers as the patch's ending; each layer's own entry has the layer's ending."""
        states = self._states()
        worst = next((state for state in _WORST if state in states), None)
        self.entry.become(worst or "restored", worst and self._where(worst))

    def _states(self) -> set[State]:
        return {applied.entry.state for applied in list(self.layers.values()) if applied.entry is not None}

    def _where(self, state: State) -> str:
        entries = [applied.entry for applied in list(self.layers.values()) if applied.entry is not None]
        reasons = [str(entry.reason) for entry in entries if entry.state == state]
        return f"{reasons[0]}; of {len(reasons)} of {len(entries)}" if len(entries) > 1 else reasons[0]


_WORST: Final[tuple[State, ...]] = ("failed", "overwritten", "displaced", "dormant", "unlinked")


@final
class InstancesLifecycle(LayersLifecycle):
    """The lifecycle of a patch of instances."""

    __slots__ = ("_home", "_instances", "_unseen")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._instances: Sequence[AppliedInstances] = ()  # after a reload of another class, too
        self._unseen: frozenset[Site] = frozenset()  # sites of hookpatch's own patches, which notice new instances
        self._home: ModuleType | None = None  # the module with the object given as of=

    @property
    def touched(self) -> list[Site]:
        """See ``Lifecycle``; without the sites of hookpatch's own patches."""
        return [site for site in super().touched if site not in self._unseen]

    def check(self) -> list[Any]:
        """See ``Lifecycle``."""
        super().check()
        patch = self._request.patch
        module = imports.present(patch.module) if patch.module is not None else None
        if not patch.required or (module is None and patch.module is not None):
            return []
        try:
            guard.check_patch(patch, self._scope, self._owner)
            if prepare.awaited(patch) is None:
                prepare.check(patch, module, self._owner)
            if self._drift is not None and self._drift.policy == "error":
                self._drift.look(patch, seen_from(self._target, module, self._owner), self._owner)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise
        return []

    @property
    def _target(self) -> Target:
        target = self._request.patch.target
        assert target is not None  # has the step ``()``
        return target

    # --- applied

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch to the instances of a class: to methods in the class, to values in each instance."""
        if self._drift is not None and self._is_skipped(seen_from(self._target, module, self._owner)):
            return
        patch = self._request.patch
        home = module if isinstance(patch.of, Target) and patch.of.module == patch.module else self._home
        if home is None and (name := prepare.awaited(patch)) is not None:
            self._await_home(name)
            return
        of_instances = prepare.prepared(patch, module, self._owner, home)
        entry = self._next_entry()
        if not of_instances.name:
            whole = prepare.whole(patch, self._owner, home)
            self._exchange(entry, Exchange(of_instances, patch, whole, self._owner))
            return

        def lay(slot: Slot) -> Callable[[], None]:
            return self._lay_instance(applied, slot)

        living = Living(of_instances, patch, self._owner, lay)
        applied = AppliedInstances(entry, living)
        with self._all_or_none(applied):
            for slot in of_instances.in_class:
                only = prepare.OnlyFor(of_instances.meant.at(slot.owner, of_instances.name))
                self._lay_quietly(applied, *self._layer(site_at(slot), only, entry.tally))
            applied.born = born = partial(self._born, living)
            applied.deaf = prepare.hear(of_instances.meant, born)
            self._hook(applied, prepare.of_making(of_instances, born))
            if not of_instances.in_class:
                self._hook_copies(applied)
            living.adopt_all()

    def _await_home(self, name: str) -> None:
        """Apply the patch after the import of the module with the object given as of=."""
        of_class = self._request.patch.module
        self._entry.become("waiting", f"of= is in {name}, which is not imported")

        def arrive(home: ModuleType) -> None:
            self._home = home
            if of_class is None or (module := imports.present(of_class)) is not None:
                self.arrive(module)

        if self._further_watch is None:
            self._watch_further(imports.Watch(name, arrive))

    def _exchange(self, entry: Entry, exchange: Exchange) -> None:
        """Apply the patch to the instances themselves: each living instance is exchanged for another object."""
        applied = AppliedInstances(entry, exchange)
        with self._all_or_none(applied):
            for slot in exchange.places:
                self._lay_quietly(applied, *self._layer(site_at(slot)))
            exchange.check()

    @contextmanager
    def _all_or_none(self, applied: AppliedInstances) -> Iterator[None]:
        """Note that a patch of instances is applied; restore the layers of a failing block."""
        self._instances = (*self._instances, applied)
        try:
            yield
        except Exception as error:
            if not is_interrupt(error):  # else the session restores the instances
                applied.deaf()
                for layer in reversed(list(applied.layers.values())):
                    self._placed.pop(layer.site, None)
                    undo(layer, self._request, [])
                self._instances = tuple(instances for instances in self._instances if instances is not applied)
            raise
        entry = applied.entry
        entry.become("applied")
        entry.warnings, entry.applied = (*self._warnings, *applied.living.doubts()), applied
        entry.instances = applied.living.count()

    def _lay_instance(self, instances: AppliedInstances, slot: Slot) -> Callable[[], None]:
        """Apply the patch to an instance; return the function that forgets the layer of a dead instance."""
        self._hook_copies(instances)
        patch, of_instances = self._request.patch, instances.living.of
        if of_instances.in_class:
            patch = prepare.for_one(patch, slot.owner)
        applied, tally = self._layer(site_at(slot), tally=instances.entry.tally, patch=patch)
        self._lay_quietly(instances, applied, tally)

        def forget_layer() -> None:
            applied.layer.end()
            self._placed.pop(applied.site, None)
            instances.layers.pop(applied.site, None)

        return forget_layer

    def _lay_quietly(self, instances: AppliedInstances, applied: AppliedLayer, tally: Tally | None) -> None:
        """Apply a layer among many, with an entry outside of all reports."""
        if not self._place(applied):
            return
        instances.layers[applied.site] = applied
        instances.entry.tally = tally or instances.entry.tally

        def note() -> None:
            applied.entry = Entry(self._request)
            applied.entry.become("applied")

        try:
            self._commit(applied, note)
        except Exception as error:
            if not is_interrupt(error):
                instances.layers.pop(applied.site, None)
            raise
        self._await_library(instances, applied.site, applied.layer)

    # --- new instances

    def _hook(self, instances: AppliedInstances, hooks: Iterable[tuple[Slot, Patch]]) -> None:
        """Apply hookpatch's own patches, which notice new instances."""
        # An owner of their own, in conflict with no other owner.
        owner = f"hookpatch for {self._request.patch.address} ({-self._rank[1]}) of {self._owner}"
        for slot, hook in hooks:
            site = site_at(slot)
            self._unseen |= {site}
            self._lay_quietly(instances, AppliedLayer(site, Layer(hook, None, owner, self._rank)), None)

    def _hook_copies(self, instances: AppliedInstances) -> None:
        if not instances.hears_copies:
            self._hook(instances, prepare.of_copies(instances.living.of, instances.born))
            instances.hears_copies = True  # last: an interrupted look is repeated

    def _born(self, living: Living, instance: Any) -> None:
        """Patch an instance made just now, amid foreign code."""
        if self._ended:
            return
        try:
            if (site := living.born(instance)) is not None:
                for failure in notify.sites_changed([site]):
                    warnings.warn(str(failure), PatchFailedWarning, stacklevel=4)
        except Exception as error:
            if is_interrupt(error):
                raise
            message = f"not patched: an instance made just now: {error}"
            warnings.warn(message, PatchFailedWarning, stacklevel=4)

    # --- restored

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Gone) -> None:
        for instances in self._instances:
            instances.deaf()
            if instances.library is not None:
                instances.library.cancel()
            instances.look()
        super()._restore(errors, touched, copied)
        for instances in self._instances:
            instances.ended()

    def forget(self) -> None:
        """Forget the restored layers and instances."""
        entries = [instances.entry for instances in self._instances]
        self._instances = ()
        super().forget()
        for entry in entries:
            forget(entry)
