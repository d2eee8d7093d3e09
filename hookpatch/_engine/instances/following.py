"""Follow the copies of an object with a patched attribute, from before the patch is applied until the end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import Any, Final, Protocol, cast, final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.instances.duplicates import copy_at, follow, hooks
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import site_at
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import inner

_OF_THE_SLOT: Final = 3  # references of a slot and of its state, to our value while the value is in the slot
_OUTSIDE: Final = 1  # of the layers that note copies: a new __copy__ of a later session is an inner layer
_BOUND: Final = (MethodType, BuiltinMethodType, MethodWrapperType)
_LEFT_ALONE: Final = "left alone: the value in the __dict__ of other objects of the class, made by other code: "


class Note(Protocol):
    """Notes what the patch does not do for copies, in place of a former message."""

    def __call__(self, message: str, former: str = "") -> None: ...


@final
class Following:
    """The copies of an object with a layer at an attribute. Lives as long as the layer."""

    def __init__(self, site: Site, layer: Layer, note: Note) -> None:
        self._site: Final = site
        self._layer: Final = layer
        self._note: Final = note
        self._stop: Callable[[], None] | None = None
        self._hooks: Sequence[tuple[Site, Layer]] = ()  # at the methods by which the object's class makes copies itself
        self._written: tuple[Any, int] = (None, 0)  # our value in the slot, and its references
        self._message = ""

    def begin(self) -> None:
        """Begin, before the layer is applied."""
        slot, layer = cast(AttributeSlot, self._site.slot), self._layer
        self._stop = follow(slot, self._calls_owner, self._note)
        owner = f"hookpatch for {layer.patch.address} ({-layer.rank[1]}) of {layer.owner}"
        for place, patch in hooks(slot):
            hook = site_at(place), Layer(patch, None, owner, (*layer.rank, _OUTSIDE))
            self._hooks = *self._hooks, hook
            hook[0].apply(hook[1], lambda: None)

    def note_value(self) -> None:
        """Note the references to our value, after the layer is applied: a later reference may be of a copy."""
        value = self._site.value
        count = sys.getrefcount(value)  # in a statement alone, as in ``look``
        self._written = value, count

    def look(self) -> None:
        """Note how many other objects have our value under the same name, as copies of a ``__dict__`` have."""
        value, count = self._written
        # At the end the session keeps a value that was put everywhere, to look for copies in modules.
        gone = 0 if self._site.value is value else _OF_THE_SLOT - (self._layer.patch.reach == "everywhere")
        references = sys.getrefcount(value)
        is_held = is_recognisable(value) and references > count + 1 - gone
        if copies := is_held and _copies_with(cast(AttributeSlot, self._site.slot), value):
            former, self._message = self._message, f"{_LEFT_ALONE}{copies}"
            self._note(self._message, former)

    def end(self) -> None:
        """Restore the copies, and note how many objects keep our value. May be called again."""
        if self._stop is not None:
            self._stop()
        for site, layer in self._hooks:
            site.restore(layer, lambda _: None, lambda: None)
        self.look()
        self._written = None, 0  # else the end of the session would look at all objects for the holder of our value

    def _calls_owner(self) -> bool:
        """Return True if the value in the slot calls a method of the slot's object."""
        is_new = any(layer.patch.verb in ("replace", "remove") for layer in self._site.layers)
        base = inner(self._site.base)
        return not is_new and type(base) in _BOUND and base.__self__ is self._site.slot.owner


def _copies_with(slot: AttributeSlot, value: Any) -> int:
    """Return how many other objects of the class have a value under the same name, copied without notice."""
    referrers = gc.get_referrers(value)
    dicts = [referrer for referrer in referrers if type(referrer) is dict and referrer.get(slot.name) is value]
    owners = {id(owner): owner for owner in (*referrers, *(gc.get_referrers(*dicts) if dicts else ()))}
    others = [owner for owner in owners.values() if type(owner) is type(slot.owner) and owner is not slot.owner]
    count = 0
    for copied in [AttributeSlot(other, slot.name) for other in others]:
        try:
            count += copied.read() is value and copy_at(copied) is None
        except Exception as error:  # of the object's own code
            if is_interrupt(error):
                raise
    return count
