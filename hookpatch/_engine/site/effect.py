"""Say why no call reaches a layer, or no call through another slot.

An outer layer, a layer in place, or a layer of an heir may keep the calls. An heir is an object, a subclass or a lazy
module with a slot of its own for the inherited name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import takewhile
from types import FunctionType, MethodType
from typing import Any, Final, cast

from hookpatch._engine.calls.code import LRU_CACHE
from hookpatch._engine.calls.kept import keeps, names_in
from hookpatch._engine.calls.trampoline import is_changed_in_place
from hookpatch._engine.patch.patch import GIVING_VERBS
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import Hidden, hidden_by, hides_layers
from hookpatch._engine.site.layers.rivals import lost_beneath, lost_inside
from hookpatch._engine.site.site import Site, has_heirs, heirs
from hookpatch._engine.site.sites import site_at, site_in
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.slot import ABSENT, Slot, alike, inner, mro

_WITHOUT_BASE: Final = ("replace", "remove", "edit")  # an edit makes a copy of the function
_MOST: Final = 3  # named patches of heirs; further ones are counted


def hidden(site: Site, layer: Layer) -> Hidden | None:
    """Return why no call reaches a layer of a site, or no call through the slot of the target; None if calls do."""
    layers = site.layers
    outside = layers[: layers.index(layer)] if layer in layers else ()
    through = () if layer.home is None else site_at(layer.home[0]).layers
    return hidden_by(layer, outside, through, site.slot.owner)


def lack_of_effect(site: Site, layer: Layer) -> str:
    """Return in words why a layer, or a given argument, has no effect in all or in some calls; else empty."""
    if layer.without_effect or layer not in site.layers:
        return layer.without_effect
    if len(site.layers) == 1 and layer.home is None and not has_heirs():
        return ""  # alone: a session with reach="everywhere" asks for each of many places
    by = hidden(site, layer)
    here = by.text if by is not None else lost_beneath(layer, site.layers[site.layers.index(layer) + 1 :])
    return "; ".join(filter(None, (here, *_passed_by(site, layer), *_called_by_wrappers(site, layer))))


def _passed_by(site: Site, layer: Layer) -> list[str]:
    """Return in words the patches of heirs whose calls do not reach a layer."""
    slot = _slot_of(site, layer)
    passing = [_covering_layer(heir, cls, site, layer) for heir, cls in _heirs_of_class(site, layer)]
    passing += [_fetching_layer(heir, slot, site, layer) for heir in heirs("") if heir is not site]
    return _at_most(_in_words(outer) for outer in passing if outer is not None)


def _slot_of(site: Site, layer: Layer) -> Slot:
    return site.slot if layer.home is None else layer.home[0]


def _heirs_of_class(site: Site, layer: Layer) -> list[tuple[Site, type]]:
    """Return the sites with the name of a layer's attribute of a class, each with the class; empty without a class."""
    slot = _slot_of(site, layer)
    if slot.in_class is None or not isinstance(slot, AttributeSlot):
        return []
    return [(heir, slot.in_class) for heir in heirs(slot.name) if heir is not site]


def _called_by_wrappers(site: Site, layer: Layer) -> list[str]:
    """Return in words the patches of heirs with wrappers that ``callers=`` of a layer takes for the callers."""
    if all(":" in caller for caller in layer.patch.callers):  # functions, which are searched in all frames
        return []
    wrappers = [
        over
        for heir, cls in _heirs_of_class(site, layer)
        if _inherits(heir, cls)
        for over in heir.layers
        if over.patch.verb == "wrap" and not (over.is_left_out or over.is_needless)
    ]
    text = "callers= takes a call through {} for a call by the wrapper of {}"
    return _at_most(text.format(over.patch.address, over.owner) for over in wrappers)


def _at_most(texts: Iterable[str]) -> list[str]:
    """Return a few of the texts, each once, and the number of further ones."""
    different = list(dict.fromkeys(texts))
    return different[:_MOST] + [f"and through {len(different) - _MOST} more"] * (len(different) > _MOST)


def _inherits(heir: Site, cls: type) -> bool:
    owner = heir.slot.owner
    return cls in (mro(owner)[1:] if issubclass(type(owner), type) else mro(type(owner)))


def _covering_layer(heir: Site, cls: type, site: Site, layer: Layer) -> Layer | None:
    """Return the layer of an heir of a class that keeps calls from a layer of the class; None if each call goes on.

    A layer around calls looks the inherited value up at each call.
    """
    owner, name = heir.slot.owner, cast(AttributeSlot, heir.slot).name
    is_class = issubclass(type(owner), type)
    bases = mro(owner)[1:] if is_class else ()
    classes = (*bases, *mro(type(owner)))
    between = takewhile(lambda base: base is not cls, classes)
    if cls not in classes or any(own_beneath(AttributeSlot(base, name)) is not ABSENT for base in between):
        return None
    if cls in bases and type(inner(beneath(AttributeSlot(cls, name)))) is FunctionType:
        return None  # the report names the subclass that overrides the method
    if layer.only is not None and (is_class or layer.patch.only is not None or not layer.only.takes(owner)):
        return None
    outer = next((over for over in heir.layers if not (over.wraps or over.is_left_out or over.is_needless)), None)
    return None if outer is None or _calls_on(heir, site, layer) else outer


def _fetching_layer(heir: Site, slot: Slot, site: Site, layer: Layer) -> Layer | None:
    """Return the layer of an heir that has fetched the value of a slot before; None if calls reach a layer there."""
    base = heir.base
    if not is_recognisable(base):
        return None
    is_of_original = _called_function(inner(base)) is _called_function(inner(beneath(slot)))
    is_passed = (is_of_original or _leads_to(base, site, layer)) and not _calls_on(heir, site, layer)
    return heir.layers[0] if is_passed else None


def _calls_on(heir: Site, site: Site, layer: Layer) -> bool:
    """Return True if the value of an heir calls a layer of a site, found by references or by the method's name."""
    value, name = inner(heir.value), getattr(site.slot, "name", "")
    calls_base = not any(over.patch.verb in _WITHOUT_BASE for over in heir.layers if not over.wraps)
    if calls_base and any(alike(heir.base, ours) for ours in _values_to_reach(site, layer)):
        return True
    return (type(value) is FunctionType and name in names_in(value.__code__)) or _leads_to(value, site, layer)


def _leads_to(value: Any, site: Site, layer: Layer) -> bool:
    """Return True if a value leads to a layer of a site by references."""
    wanted = {id(inner(ours)) for ours in _values_to_reach(site, layer) if is_recognisable(ours)}
    return id(inner(value)) in wanted or keeps(value, lambda referent: id(inner(referent)) in wanted)


def _values_to_reach(site: Site, layer: Layer) -> list[Any]:
    """Return the values through which calls reach a layer."""
    return [site.slot.owner] if isinstance(site.slot, FunctionSlot) else [site.value, *site.values_of(layer)]


def _in_words(outer: Layer) -> str:
    return f"without effect through {outer.patch.address}: {outer.patch.verb} of {outer.owner} lies there"


def lost_in_place(site: Site, layer: Layer) -> str:
    """Return in words the given arguments that patches of the slot's function in place override; empty without any."""
    gives = layer.patch.verb in GIVING_VERBS and not isinstance(site.slot, FunctionSlot)
    callee = _called_function(inner(beneath(site.slot))) if gives else None
    return lost_inside(layer, site_in(callee).layers) if type(callee) is FunctionType else ""


def _called_function(callee: Any) -> Any:
    """Return the function that a bound method, a partial or a cached function calls."""
    while type(callee) in (MethodType, partial, LRU_CACHE):
        callee = callee.__func__ if type(callee) is MethodType else getattr(callee, "func", None) or callee.__wrapped__
    return callee


def newly_hidden(site: Site, layer: Layer) -> list[tuple[Layer, Hidden]]:
    """Return the layers that a new layer hides, and the new layer if it is hidden itself; each with the reason."""
    candidates = [(site, candidate) for candidate in site.layers if candidate is layer or hides_layers(layer)]
    function = inner(site.original)
    if type(function) is FunctionType and is_changed_in_place(function):
        in_place = site_in(function)
        candidates += [
            (in_place, candidate)
            for candidate in in_place.layers
            if candidate.home and candidate.home[0].key == site.slot.key and hides_layers(layer)
        ]
    reasons = [(candidate, hidden(place, candidate)) for place, candidate in candidates]
    return [(candidate, by) for candidate, by in reasons if by is not None and layer in (candidate, by.outer)]
