"""The instances found by a patch: alive, made inside, dead. No instance is kept alive."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap import imports
from hookpatch._engine.instances.duplicates import copy_at
from hookpatch._engine.instances.meant import OfInstances, behind_proxy
from hookpatch._engine.instances.slot import InstanceSlot, dict_of, entries
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.site.doubts import values_hidden_by
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.guard import check_slot
from hookpatch._engine.slots.originals import is_patched, originals, own_beneath
from hookpatch._engine.slots.referrers import hides_objects
from hookpatch._engine.slots.resolve import missing
from hookpatch._engine.slots.slot import ABSENT
from hookpatch.errors import HookpatchError

_FROZEN: Final = "instances that gc.freeze() has set aside are not seen"


def _nothing() -> None: ...


@final
class Living:
    """The instances of one patch. Lives as long as the patch is applied."""

    def __init__(
        self, of: OfInstances, patch: Patch, owner: str, lay: Callable[[InstanceSlot], Callable[[], None]]
    ) -> None:
        """Take the instances of a patch; messages name ``owner``.

        ``lay``: applies a layer to the slot of an instance, and returns the function that forgets the layer.
        """
        self.meant: Final = of.meant
        self.of: Final = of
        self._made = 0
        self._without: Final[list[InstanceSlot]] = []  # of instances without the attribute
        self._patch: Final = patch
        self._owner: Final = owner
        self._lay: Final = lay
        # By id; the weak reference removes the entry. GIL: each change is one operation of the dict.
        self._known: Final[dict[int, ReferenceType[Any]]] = {}
        # Each patched instance, by the id of the instance's __dict__. Instances may share a __dict__.
        self._by_dict: Final[dict[int, ReferenceType[Any]]] = {}

    def adopt_all(self) -> None:
        """Patch all living instances.

        Raises:
            TargetNotFound: all living instances lack the attribute.
            HookpatchError: the patch does not fit an instance.
        """
        instances = [*filter(self.meant.wants, self.meant.living())]
        for instance in instances:
            self._adopt(instance)
        if instances and len(self._without) == len(instances) and self._patch.target is not None:
            remedy = "add=True adds it" if self._patch.verb == "replace" else ""
            raise missing(self._without[0], self._patch.target, self._owner, remedy=remedy)

    def adopt_rest(self, new: Collection[type]) -> list[HookpatchError]:
        """Patch the living instances that came without notice: of new classes, or by an assignment to ``__class__``.

        Return why the patch does not fit some.
        """
        refused: list[HookpatchError] = []
        self._without.clear()
        for instance in self.meant.living():
            if id(instance) not in self._known and self.meant.wants(instance):
                try:
                    self._adopt(instance)
                    self._made += type(instance) in new
                except HookpatchError as error:
                    refused.append(error)
        return refused

    def born(self, instance: Any) -> Site | None:
        """Patch a new instance, or an instance with a state just set by other code; raise like ``adopt_all``.

        Return the site of the instance, None if the class alone is patched.
        """
        if behind_proxy(instance) is not instance:
            return None  # a proxy of torch.export shares the __dict__ of a patched instance
        is_new = id(instance) not in self._known
        if is_new and not self.meant.wants(instance):
            return None
        if is_new:
            self._adopt(instance)
            self._made += 1
        slot = InstanceSlot(instance, self.of.name) if self.of.has_entries else None
        if slot is None or not is_patched(slot):
            return None
        site = site_at(slot)
        if not is_new:
            site.refresh()
        return site

    def _adopt(self, instance: Any) -> None:
        if self.of.has_entries and (first := self._sharing(instance)) is not None:
            self._adopt_sharing(instance, first)
            return
        forget, shared = _nothing, 0
        if self.of.has_entries:
            slot = InstanceSlot(instance, self.of.name)
            own = own_beneath(slot) if (copy := copy_at(slot)) is None else copy.value.original
            may_lack = self.of.in_class or self._patch.add or is_patched(slot)
            if own is ABSENT and not may_lack and slot.inherited() is ABSENT:
                self._without.append(slot)
                return
            if own is not ABSENT or not self.of.in_class:
                check_slot(self._patch, slot, own, self._owner)
                forget, shared = self._lay(slot), id(dict_of(instance))
                self._by_dict[shared] = ref(instance)

        def died(_: object, number: int = id(instance), is_ending: Callable[[], bool] = imports.is_ending) -> None:
            # Called by the collector, anywhere, before the memory is used again: no other object has this id yet.
            if is_ending():  # the modules are being emptied
                return
            self._known.pop(number, None)
            self._by_dict.pop(shared, None)
            originals.pop(("attribute", number, self.of.name), None)
            forget()

        self._known[id(instance)] = ref(instance, died)

    def _sharing(self, instance: Any) -> Any:
        """Return the instance that was patched in the same ``__dict__`` before; None without another instance."""
        own = dict_of(instance)
        first = (self._by_dict.get(id(own)) or _nothing)()
        return first if first is not None and first is not instance and own is dict_of(first) is not None else None

    def _adopt_sharing(self, instance: Any, first: Any) -> None:
        """Note an instance with the ``__dict__`` of a patched instance; keep the patched instance alive meanwhile."""

        def died(_: object, number: int = id(instance), kept_alive: Any = first) -> None:
            self._known.pop(number, None)

        self._known[id(instance)] = ref(instance, died)

    def entries(self) -> list[AttributeSlot]:
        """Return the slots of patched instances that have a value of their own over the patched method of the class."""
        alive = [instance for weak in [*self._known.values()] if (instance := weak()) is not None]
        slots = entries(alive if self.of.in_class and self.of.has_entries else (), self.of.name)
        return [slot for slot in slots if copy_at(slot) is None]

    def doubts(self) -> list[str]:
        """Return the unpatched instances, and values that the class may hide, in words."""
        doubts = [f"{len(self._without)} instances have no such attribute"] if self._without else []
        doubts += () if self.of.in_class else values_hidden_by(self.meant.cls)
        return [*doubts, _FROZEN] if hides_objects() else doubts

    def left_out(self) -> str:
        """Return the number of instances of unmeant subclasses, in words; a method asks for the class at each call."""
        return self.meant.left_out(() if self.of.in_class else self._known)

    def count(self) -> str:
        """Return how many instances are alive, and how many were made inside, in words."""
        alive = len(self.meant.living()) if self.of.in_class and self.meant.only is None else len(self._known)
        return f"{alive} alive" + (f", {self._made} made inside" if self._made else "")
