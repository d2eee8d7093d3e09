"""A patch of the instances of a class: layers over methods in the class, or over values in each instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.instances import prepare
from hookpatch._engine.instances.exchange import Exchange
from hookpatch._engine.instances.living import Living
from hookpatch._engine.instances.outliving import Outliving
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.target import Target
from hookpatch._engine.site.layers.call_count import Tally
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots import guard
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.resolve import seen_from
from hookpatch._engine.slots.slot import Slot
from hookpatch._plugins import notify
from hookpatch._session.ledger import Entry
from hookpatch._session.lifecycle.applied import AppliedInstances, AppliedLayer, undo, warn_of
from hookpatch._session.lifecycle.layers import LayersLifecycle, forget
from hookpatch._session.lifecycle.lifecycle import Formers
from hookpatch.errors import DisplacedWarning, HookpatchError, PatchFailedWarning, warn

_OUTSIDE: Final = 1  # of the layers that notice new instances: a new __init__ of a later session is an inner layer


@final
class InstancesLifecycle(LayersLifecycle):
    """The lifecycle of a patch of instances."""

    __slots__ = ("_dead", "_home", "_instances")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._instances: Sequence[AppliedInstances] = ()  # after a reload of another class, too
        self._home: ModuleType | None = None  # the module with the object given as of=
        self._dead: Final = Outliving()

    @property
    def touched(self) -> list[Site]:
        """See ``Lifecycle``; without the sites of hookpatch's own patches."""
        hooks = {site for instances in self._instances for site in instances.hooks}
        return [*(site for site in super().touched if site not in hooks), *self._dead.sites]

    def check(self) -> list[Any]:
        """See ``Lifecycle``."""
        super().check()
        patch = self._patch
        module = imports.present(patch.module) if patch.module is not None else None
        if not patch.required or (module is None and patch.module is not None):
            return []
        try:
            guard.check_patch(patch, self._scope, self._owner)
            self._take_source()
            patch = self._patch
            if prepare.awaited_module(patch) is None:
                prepare.check(patch, module, self._owner)
            if self._drift is not None and self._drift.policy == "error":
                self._drift.compare(patch, seen_from(self._target, module, self._owner), self._owner)
        except HookpatchError as error:
            self._entry.become("failed", error)
            raise
        return []

    @property
    def _target(self) -> Target:
        target = self._patch.target
        assert target is not None  # has the step ``()``
        return target

    # --- applied

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Apply the patch to the instances of a class: to methods in the class, to values in each instance."""
        if self._drift is not None and self._is_skipped(seen_from(self._target, module, self._owner)):
            return
        self._take_source()
        patch = self._patch
        home = module if isinstance(patch.of, Target) and patch.of.module == patch.module else self._home
        if home is None and (name := prepare.awaited_module(patch)) is not None:
            self._await_home(name)
            return
        of_instances = prepare.prepared(patch, module, self._owner, home)
        entry = self._next_entry()
        if not of_instances.name:
            whole = prepare.object_of(patch, self._owner, home)
            self._exchange(entry, Exchange(of_instances, patch, whole, self._owner))
            return

        def lay(slot: Slot) -> Callable[[], None]:
            return self._lay_instance(applied, slot)

        living = Living(of_instances, patch, self._owner, lay)
        applied = AppliedInstances(entry, living)
        with self._all_or_none(applied):
            applied.born = partial(self._born, living, applied)
            applied.stop_listening = prepare.listen_for_states(of_instances.meant, applied.born)
            for refused in self._lay_in_classes(applied, living):
                raise refused
            if not of_instances.in_class:
                self._hook_copies(applied)
            living.adopt_all()
        if of_instances.meant.parts is None:
            applied.spread = partial(self._spread, applied, living)
            if of_instances.meant.with_subclasses and self._further_watch is None:
                self._watch_further(imports.Watch(imports.ANY, self._look_at_classes))

    def _lay_in_classes(self, applied: AppliedInstances, living: Living) -> list[HookpatchError]:
        """Apply the patch to the methods of all classes without a layer, and notice new instances of the classes.

        Return why the patch does not fit a method.
        """
        of_instances, refused = living.of, []
        for owner in of_instances.meant.owners(of_instances.name).new_owners() if of_instances.in_class else ():
            slot = AttributeSlot(owner, of_instances.name)
            only = prepare.OnlyFor(of_instances.meant, owner, of_instances.name)
            try:
                guard.check_slot(self._patch, slot, own_beneath(slot), self._owner)
                placed, tally = self._layer(site_at(slot), only, applied.entry.tally)
                self._lay_quietly(applied, placed, tally)
                self._warn_of_hidden(placed)
            except HookpatchError as error:
                refused.append(error)
        self._hook(applied, prepare.of_making(of_instances, applied.born))
        if applied.hears_copies:
            self._hook(applied, prepare.of_copies(of_instances, applied.born))
        applied.kinds.update(of_instances.meant.kinds)
        return refused

    # --- subclasses and instances that come later without notice

    def _look_at_classes(self, module: ModuleType) -> None:
        """Apply the patch to the subclasses in a module executed just now, inside a foreign import."""
        classes = [value for value in [*vars(module).values()] if issubclass(type(value), type)]
        for instances in self._instances:
            if any(instances.living.meant.means_class(cls) and cls not in instances.kinds for cls in classes):
                instances.spread()

    def _spread(self, applied: AppliedInstances, living: Living) -> None:
        """Apply the patch to subclasses that have come since, and to instances that came without a call of ours."""
        if self._ended:
            return
        earlier = {*applied.layers}
        new = [kind for kind in living.meant.kinds if kind not in applied.kinds]
        of_classes = self._lay_in_classes(applied, living) if new else []
        refused = [f"instances of a class made inside: {error}" for error in of_classes]
        refused += [f"an instance that came without notice: {error}" for error in living.adopt_rest(new)]
        _notify([site for site in list(applied.layers) if site not in {*earlier, *applied.hooks}])
        for problem in refused:
            message = f"not patched: {problem}"
            if message not in applied.entry.warnings:
                applied.entry.warnings = (*applied.entry.warnings, message)
                warn(PatchFailedWarning(message))

    def _await_home(self, name: str) -> None:
        """Apply the patch after the import of the module with the object given as of=."""
        of_class = self._patch.module
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
                applied.stop_listening()
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
        patch, of_instances = self._patch, instances.living.of
        if of_instances.in_class:
            patch = prepare.for_instance(patch, slot.owner)
        applied, tally = self._layer(site_at(slot), tally=instances.entry.tally, patch=patch)
        self._lay_quietly(instances, applied, tally)

        def forget_layer() -> None:
            self._dead.keep_layer(applied.site, applied.layer, self._ended)
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
        self._await_library(applied.site, applied.layer)

    # --- new instances

    def _hook(self, instances: AppliedInstances, hooks: Iterable[tuple[Slot, Patch]]) -> None:
        """Apply hookpatch's own patches, which notice new instances."""
        # An owner of their own, in conflict with no other owner.
        owner = f"hookpatch for {self._patch.address} ({-self._rank[1]}) of {self._owner}"
        for slot, hook in hooks:
            site = site_at(slot)
            instances.hooks.add(site)
            self._lay_quietly(instances, AppliedLayer(site, Layer(hook, None, owner, (*self._rank, _OUTSIDE))), None)

    def _hook_copies(self, instances: AppliedInstances) -> None:
        if not instances.hears_copies:
            self._hook(instances, prepare.of_copies(instances.living.of, instances.born))
            instances.hears_copies = True  # last: an interrupted look is repeated

    def _born(self, living: Living, applied: AppliedInstances, instance: Any) -> None:
        """Patch an instance made just now, amid foreign code."""
        if self._ended:
            return
        try:
            if type(instance) not in applied.kinds:
                applied.spread()
            if (site := living.born(instance)) is not None:
                _notify([site])
        except Exception as error:
            if is_interrupt(error):
                raise
            message = f"not patched: an instance made just now: {error}"
            warn(PatchFailedWarning(message))

    # --- restored

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        for instances in self._instances:
            instances.stop_listening()
            instances.compare_slots()
        super()._restore(errors, touched, copied)
        self._dead.end_layers()
        for instances in self._instances:
            instances.note_ending()
            if instances.covered is not None:
                try:
                    warn_of(instances.entry, self._request)
                except DisplacedWarning as warning:  # made an error by the user
                    errors.append(warning)

    def forget(self) -> None:
        """Forget the restored layers and instances."""
        for instances in self._instances:
            forget(instances.entry, set())
        self._instances = ()
        super().forget()


def _notify(sites: list[Site]) -> None:
    """Notify the plugins that sites have changed, amid foreign code."""
    for failure in notify.sites_changed(sites):
        warn(PatchFailedWarning(str(failure)))
