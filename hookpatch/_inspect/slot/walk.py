"""Walk through the layers of a slot, from outside in. Calls no layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, final

from hookpatch._engine.calls import beneath
from hookpatch._engine.calls.trampoline import Swap, beneath_link, is_trampoline, link_of
from hookpatch._engine.patch.patch import GIVING_VERBS, MAKING_VERBS
from hookpatch._engine.site.effect import lack_of_effect, lost_in_place
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import patched
from hookpatch._engine.site.stand_in import StandIn, is_proxy
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, is_same_value, mro
from hookpatch._engine.source.location import in_words, location, short_name
from hookpatch._inspect.slot.foreign import wrapping
from hookpatch._inspect.slot.report import LayerReport
from hookpatch._session.lifecycle.overwritten import covering_value, overwriting_value

_FORMS: Final = {staticmethod: "a static method", classmethod: "a class method", property: "a property"}


@final
class PatchedSlots:
    """The patched slots as of now: one look for all walks of a call of ``why``.

    Attributes:
        sites: the sites with layers, by the keys of their slots.
        in_place: the sites of functions changed in place.
        of_link: the layers, by the ids of the links of our wrappers.
    """

    def __init__(self) -> None:
        self.sites: Final = {site.slot.key: site for site in patched()}
        self.in_place: Final = [site for site in self.sites.values() if isinstance(site.slot, FunctionSlot)]
        stand_ins = [stand_in for site in self.sites.values() for stand_in in site.stand_ins]
        self.of_link: Final = {id(link): layer for stand_in in stand_ins for link, layer in stand_in.links}


@final
class LayerWalk:
    """A walk through the layers of one slot.

    Attributes:
        layers: the layers so far, the outermost first.
        notes: notes on the slot as a whole.
    """

    def __init__(self, now: PatchedSlots) -> None:
        self._now: Final = now
        self.layers: Final[list[LayerReport]] = []
        self.notes: Final[list[str]] = []
        self._reported: Final[set[Layer]] = set()
        self._visited: Final[set[int]] = set()
        self._homes: dict[Site, Layer] = {}  # functions changed in place for the slot, each with a layer
        self._is_reached = True
        self._form: str | None = None

    def slot(self, slot: Slot) -> None:
        """Add the layers of a slot."""
        site = self._now.sites.get(slot.key)
        at_home = [(owner, layer, layer.home) for owner in self._now.in_place for layer in owner.layers]
        self._homes |= {owner: layer for owner, layer, home in at_home if home and home[0].key == slot.key}
        value = slot.read()
        self._form = _FORMS.get(type(value if site is None else site.original))
        if value is ABSENT:
            remover = next((layer for layer in site.layers if layer.patch.verb == "remove"), None) if site else None
            if site is not None and remover is not None:
                self._add_patch(remover, site)
                value = self._below(remover, site)
            elif self._inherited(slot):
                return
        if value is not ABSENT:
            self._value(value, slot, site)
        for owner in [*([] if site is None else [site]), *self._homes]:
            for layer in owner.layers:
                if layer not in self._reported:
                    note = "the outer layer does not show its callee" if not layer.is_left_out else "left out"
                    self._add_patch(layer, owner, None if layer.is_needless else note)

    def _value(self, value: Any, slot: Slot, site: Site | None) -> None:
        """Add the layers of a value, from the value itself down to the original."""
        while value is not ABSENT and id(inner(value)) not in self._visited:
            self._visited.add(id(inner(value)))
            callee = inner(value)
            if site is not None and (layer := self._layer_of(value, site)) is not None:
                self._add_patch(layer, site)
                calls_on = layer.patch.verb in MAKING_VERBS or layer.only is not None
                value = layer.derived_from(value) if calls_on else self._below(layer, site)
            elif is_proxy(value):
                slot, site = self._add_run(callee._self_layers, slot, site, value)
                value = self._bottom(AttributeSlot(callee, "__wrapped__").read(), slot)
            elif type(callee) is FunctionType and is_trampoline(callee):
                layer = self._now.of_link.get(id(link_of(callee)))
                slot, site = self._add_run([] if layer is None else [layer], slot, site, callee)
                value = self._bottom(beneath_link(callee), slot)
            elif (in_place := self._now.sites.get(("function", id(callee)))) is not None:
                slot, site, value = in_place.slot, in_place, self._swap(in_place)
            elif (wrapper := wrapping(value, slot)) is not None:
                self._add(LayerReport("somebody", wrapper.kind, wrapper.name, wrapper.place, note=wrapper.note))
                self._is_reached &= wrapper.is_called
                value = wrapper.below
            elif (ours := self._kept_by_foreign(site)) is not ABSENT:
                kind = "function" if type(callee) is FunctionType else "value"
                note = "keeps hookpatch's wrapper, and can call the wrapper"
                self._add(LayerReport("somebody", kind, in_words(value), location(value), note=note))
                value = ours
            else:
                return self._add_innermost(value, site)

    def _kept_by_foreign(self, site: Site | None) -> Any:
        """Return our value kept by a foreign value in the slot, or ABSENT."""
        own = [] if site is None else [(site, layer, site.values_of(layer)) for layer in site.layers]
        for owner, layer, values in [*own, *((home, layer, [home.slot.owner]) for home, layer in self._homes.items())]:
            ahead = [value for value in values if value is not ABSENT and id(inner(value)) not in self._visited]
            if ahead and layer not in self._reported and overwriting_value(owner, layer, "") is None:
                return ahead[0]
        return ABSENT

    def _add_run(self, layers: Sequence[Layer], slot: Slot, site: Site | None, value: Any) -> tuple[Slot, Site | None]:
        """Add the layers of our wrapper, or a note on the ended session; return the slot and site of the layers."""
        for layer in layers:
            if site is None or layer not in site.layers:
                site = next((candidate for candidate in self._now.sites.values() if layer in candidate.layers), None)
            slot = slot if site is None else site.slot
            self._add_patch(layer, site)
        stand_ins = site.stand_ins if site is not None else ()
        if not layers and not any(_is_wrapper_of(candidate, value) for candidate in stand_ins):
            note = "passes calls through: the session has ended, and foreign code put the wrapper back or keeps it"
            self._add(LayerReport("hookpatch", "ended", short_name(value), location(value), note=note))
        return slot, site

    def _layer_of(self, value: Any, site: Site) -> Layer | None:
        """Return the layer that has written a value into the slot."""
        for layer in site.layers:
            if layer not in self._reported and any(
                is_same_value(written, value) or written is inner(value) for written in layer.values_in_slots
            ):
                return layer
        return None

    def _below(self, layer: Layer, site: Site) -> Any:
        """Return the value below a layer that replaces the slot's value: no call reaches the value below."""
        self._is_reached = False
        for below in site.layers[site.layers.index(layer) + 1 :]:
            if below.wraps:
                return next((stand_in.value for stand_in in site.stand_ins if below in stand_in.layers), ABSENT)
            if below.patch.verb != "remove":
                return next(iter(below.values_in_slots), ABSENT)
            self._add_patch(below, site)
        return site.slot.copy if isinstance(site.slot, FunctionSlot) else site.original

    def _swap(self, site: Site) -> Any:
        """Return the callee of a function with code replaced by hookpatch."""
        swap = site.slot.read()
        if isinstance(swap, Swap):
            return swap.link[-1]
        return site.slot.copy if isinstance(site.slot, FunctionSlot) else ABSENT

    def _bottom(self, value: Any, slot: Slot) -> Any:
        """Return the callee of our innermost function, which calls the original; any other value unchanged."""
        function = value.__func__ if type(value) is MethodType else value
        if type(function) is not FunctionType or function.__code__.co_filename != beneath.__file__:
            return value
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        if "value" in cells:
            return cells["value"].cell_contents
        self._inherited(slot)
        return ABSENT

    def _inherited(self, slot: Slot) -> bool:
        """Add the layers of the slot of an inherited attribute; return False if the attribute is not inherited."""
        if not isinstance(slot, AttributeSlot) or isinstance(slot.owner, ModuleType):
            return False
        kind = slot.in_class
        for base in mro(type(slot.owner) if kind is None else kind)[kind is not None :]:
            base_slot = AttributeSlot(base, slot.name)
            if base_slot.read() is not ABSENT:
                self.notes.append(f"inherited from {short_name(base)}")
                self.slot(base_slot)
                return True
        return False

    def _add_patch(self, layer: Layer, site: Site | None, note: str | None = None) -> None:
        """Add one of our layers; ``note``: why no call reaches the layer."""
        self._reported.add(layer)
        patch, state, lacks = layer.patch, None, [layer.without_effect]
        if site is not None and layer in site.layers:
            state, lacks = "failed" if layer.is_left_out else "applied", [lack_of_effect(site, layer)]
            difference = overwriting_value(site, layer, None) or covering_value(site, layer)
            if difference is not None:
                state, note = "overwritten", difference
            else:
                lacks.append(lost_in_place(site, layer))
        gives, has_value = patch.verb in GIVING_VERBS, patch.verb not in (*GIVING_VERBS, "remove")
        arguments = {name: in_words(value) for name, value in patch.change.items()} if gives else None
        of_instances = "" if layer.only is None else f"in calls of {patch.address}"
        notes = [*filter(None, (note, *lacks, of_instances, patch.in_calls.strip()))]
        notes += [patch.by_rule] if patch.rule is not None else []
        if site is not None and isinstance(site.slot, FunctionSlot):
            notes.append("in the function itself, wherever it is bound (reach='everywhere')")
        report = LayerReport(
            "hookpatch",
            kind=patch.verb,
            name=(in_words(patch.change) if has_value else "") or patch.address,
            place=location(patch.change) if has_value else None,
            plugin=layer.plugin,
            distribution=layer.distribution,
            session=layer.rank[0],
            arguments=arguments,
            reached=note is None,
            note="; ".join(notes) or None,
            state=state,
        )
        self._add(report)

    def _add(self, report: LayerReport) -> None:
        self.layers.append(report if self._is_reached else replace(report, reached=False))

    def _add_innermost(self, value: Any, site: Site | None) -> None:
        """Add the innermost value: the original, or a foreign value if the site knows another original."""
        report = LayerReport("module", "original", in_words(value), location(value), note=self._form)
        if site is not None:
            originals = [*site.known_values, site.slot.copy if isinstance(site.slot, FunctionSlot) else ABSENT]
            is_foreign = not any(id(inner(original)) in self._visited for original in originals)
        else:
            is_foreign = any(overwriting_value(*home, None) is not None for home in self._homes.items())
        if is_foreign:
            kind = "function" if type(inner(value)) is FunctionType else "value"
            report = replace(report, by="somebody", kind=kind)
        self._add(report)


def _is_wrapper_of(candidate: StandIn, value: Any) -> bool:
    """Return True if a value is the wrapper of a stand-in, or the function called by changed code."""
    wrapper, callee = inner(candidate.value_for_outer), inner(value)
    if type(wrapper) is not FunctionType or type(callee) is not FunctionType:
        return wrapper is callee
    return link_of(wrapper) is link_of(callee)
