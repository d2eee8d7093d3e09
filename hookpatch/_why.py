"""Who stands there now: one look at a slot from outside in, which calls nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch import _imports, _standing
from hookpatch._attribute_slot import AttributeSlot
from hookpatch._foreign import kept_in_closure, wrapping
from hookpatch._function_slot import FunctionSlot
from hookpatch._layer import Layer
from hookpatch._location import bindings, described, in_words, location
from hookpatch._origin import origin
from hookpatch._resolve import MISSING, missing, resolve
from hookpatch._site import Site
from hookpatch._sites import patched
from hookpatch._slot import ABSENT, Slot, along_mro, inner, mro, same
from hookpatch._slot_report import LayerReport, SlotReport
from hookpatch._standing import is_ours, is_proxy
from hookpatch._target import Item, Target
from hookpatch._trampoline import HOOK, Swap, beneath_link, is_trampoline, link_of

_ASKED: Final = "hookpatch.why()"


def why(target: str | Target) -> SlotReport:
    """Return who stands at an address now, layer by layer: patches, wrappers of others, the original.

    Nothing is imported, called or changed. What is not ours is told as far as it can be seen from outside; where that
    is a guess, it says so.

    Args:
        target: the address.

    Raises:
        TargetSyntaxError: the address cannot be read.
        TargetNotFound: a step of it is not there.
        TargetRefused: it leads to something that has no items.
    """
    target = target if isinstance(target, Target) else Target(target)
    for name in modules_of(target):
        if _imports.loaded(name) is None:
            return SlotReport(str(target), False, (), f"{name} is not imported in this process")
    module = _imports.loaded(target.module) if target.module is not None else None
    slot = resolve(target, module, _ASKED, read=_at_rest)
    look = _Look()
    look.at(slot)
    if not look.found:
        raise missing(slot, target, _ASKED)
    notes = [*_of_the_way(target, module, look), *dict.fromkeys(look.notes)]
    return SlotReport(str(target), True, tuple(look.found), "; ".join(notes) or None)


def modules_of(target: Target) -> Iterator[str]:
    """Yield the modules that an address names: its own, and those of its keys."""
    if target.module is not None:
        yield target.module
    for step in target.steps:
        if isinstance(step, Item) and isinstance(step.key, Target):
            yield from modules_of(step.key)


def _at_rest(owner: Any, name: str) -> Any:
    """Return the value of an attribute as it lies there or is inherited, or MISSING; no property runs."""
    slot = AttributeSlot(owner, name)
    found = slot.read()
    if found is ABSENT and not isinstance(owner, ModuleType):
        is_class = slot.in_class is not None
        found = along_mro(owner if is_class else type(owner), name, past_owner=is_class)
    return MISSING if found is ABSENT else inner(found)


def _of_the_way(target: Target, module: ModuleType | None, look: _Look) -> Iterator[str]:
    """Yield what is to be said if what an address leads through is patched itself."""
    for count in range(1, len(target.steps)):
        way = Target(target.up_to(count)) if target.module is not None else None
        if way is not None and resolve(way, module, _ASKED, read=_at_rest).key in look.sites:
            yield f"{way} is patched itself; this is in what stands there without patches"


@final
class _Look:
    """One look at a slot. Lives for one question.

    Attributes:
        sites: the sites that have layers, by the keys of their slots.
        found: what was found, the outermost first.
        notes: what is to be said of the slot as a whole.
    """

    def __init__(self) -> None:
        self.sites: Final = {site.slot.key: site for site in patched()}
        self.found: Final[list[LayerReport]] = []
        self.notes: Final[list[str]] = []
        standings = [standing for site in self.sites.values() for standing in site.standings]
        self._of_link: Final = {id(link): layer for standing in standings for link, layer in standing.links}
        self._told: Final[set[Layer]] = set()
        self._seen: Final[set[int]] = set()
        self._is_reached = True
        self._form: str | None = None

    def at(self, slot: Slot) -> None:
        """Find what stands in a slot, and what lies beneath it."""
        site = self.sites.get(slot.key)
        value = slot.read()
        self._form = _FORMS.get(type(value if site is None else site.original))
        if value is ABSENT:
            taken = next((layer for layer in site.layers if layer.patch.verb == "remove"), None) if site else None
            if site is not None and taken is not None:
                self._patch(taken, site)
                value = self._beneath(taken, site)
            elif (provider := _provider(slot)) is not None:
                self.notes.append(f"inherited from {described(provider.owner)}")
                self.at(provider)
                return
        if value is not ABSENT:
            self._value(value, slot, site)
        for layer in site.layers if site is not None else ():
            if layer not in self._told:
                note = "what lies over it does not tell what it calls" if not layer.is_left_out else "left out"
                self._patch(layer, site, note)

    def _value(self, value: Any, slot: Slot, site: Site | None) -> None:
        """Find what a value is, and what lies beneath it."""
        while value is not ABSENT and id(inner(value)) not in self._seen:
            self._seen.add(id(inner(value)))
            callee = inner(value)
            if site is not None and (layer := self._that_put(value, site)) is not None:
                self._patch(layer, site)
                value = layer.derived_from(value) if layer.patch.verb == "derive" else self._beneath(layer, site)
            elif is_proxy(value):
                slot, site = self._run(callee._self_layers, slot, site, value)
                value = AttributeSlot(callee, "__wrapped__").read()
            elif type(callee) is FunctionType and is_trampoline(callee):
                layer = self._of_link.get(id(link_of(callee)))
                slot, site = self._run([] if layer is None else [layer], slot, site, callee)
                value = self._bottom(beneath_link(callee), slot)
            elif (inside := self.sites.get(("function", id(callee)))) is not None:
                slot, site, value = inside.slot, inside, self._swap(inside)
            elif (over := wrapping(value, slot)) is not None:
                self._add(LayerReport("somebody", over.kind, over.name, over.place, note=over.note))
                self._is_reached &= over.is_called
                value = over.below
            else:
                value = self._original(value, slot, site)

    def _run(self, layers: Sequence[Layer], slot: Slot, site: Site | None, value: Any) -> tuple[Slot, Site | None]:
        """Note the call layers that something of ours runs, or that its session has ended; return where they lie."""
        for layer in layers:
            site = self._site_of(layer, site)
            slot = slot if site is None else site.slot
            self._patch(layer, site)
        stands = site.standings if site is not None else ()
        if not layers and not any(inner(one.seen) is inner(value) for one in stands):
            note = "passes through: its session has ended, and somebody else has put it there or keeps it"
            self._add(LayerReport("hookpatch", "ended", described(value), location(value), note=note))
        return slot, site

    def _site_of(self, layer: Layer, site: Site | None) -> Site | None:
        if site is not None and layer in site.layers:
            return site
        return next((one for one in self.sites.values() if layer in one.layers), None)

    def _that_put(self, value: Any, site: Site) -> Layer | None:
        """Return the layer that has put a value there."""
        for layer in site.layers:
            if layer not in self._told and any(same(one, value) or one is inner(value) for one in layer.put):
                return layer
        return None

    def _beneath(self, layer: Layer, site: Site) -> Any:
        """Return what lies beneath a layer that puts a value: no call gets there."""
        self._is_reached = False
        for below in site.layers[site.layers.index(layer) + 1 :]:
            if below.wraps:
                return next((one.value for one in site.standings if below in one.layers), ABSENT)
            if below.patch.verb != "remove":
                return next(iter(below.put), ABSENT)
            self._patch(below, site)
        return site.slot.copy if isinstance(site.slot, FunctionSlot) else site.original

    def _swap(self, site: Site) -> Any:
        """Return what a function that is changed in place calls."""
        swap = site.slot.read()
        if isinstance(swap, Swap):
            return swap.keyword_defaults[HOOK]
        return site.slot.copy if isinstance(site.slot, FunctionSlot) else ABSENT

    def _bottom(self, value: Any, slot: Slot) -> Any:
        """Return what a function of ours calls that stands beneath all layers; anything else as it is."""
        if type(value) is not FunctionType or value.__code__.co_filename != _standing.__file__:
            return value
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        if "value" in cells:
            return cells["value"].cell_contents
        if (provider := _provider(slot)) is not None:
            self.notes.append(f"inherited from {described(provider.owner)}")
            self.at(provider)
        return ABSENT

    def _patch(self, layer: Layer, site: Site | None, note: str | None = None) -> None:
        """Note a layer of ours."""
        self._told.add(layer)
        patch = layer.patch
        given = {name: in_words(one) for name, one in patch.change.items()} if patch.verb == "inject" else None
        notes = [note] if note else []
        if site is not None and isinstance(site.slot, FunctionSlot):
            notes.append("in the function itself, wherever it is bound (reach='everywhere')")
        name = "" if patch.verb in ("inject", "remove") else in_words(patch.change)
        report = LayerReport(
            *("hookpatch", patch.verb, name or patch.address),
            place=None if patch.verb in ("inject", "remove") else location(patch.change),
            plugin=layer.plugin,
            distribution=layer.distribution,
            session=layer.rank[0],
            arguments=given,
            note="; ".join(notes) or None,
        )
        self._add(report if note is None else replace(report, reached=False))

    def _add(self, report: LayerReport) -> None:
        self.found.append(report if self._is_reached else replace(report, reached=False))

    def _original(self, value: Any, slot: Slot, site: Site | None) -> Any:
        """Note what wraps nothing that can be seen; return what it keeps in its closure if that stood there before."""
        is_theirs, note = origin(value, slot)
        kept = kept_in_closure(inner(value), lambda one: _stood(one, slot, site)) if is_theirs is not False else None
        if kept is not None:
            note = f"a guess: it calls what it keeps in its variable '{kept[0]}'"
            self._add(LayerReport("somebody", "function", in_words(value), location(value), note=note))
            return kept[1]
        note = "; ".join(filter(None, [self._form, note])) or None
        theirs = "function" if type(inner(value)) is FunctionType else "value"
        report = LayerReport("module", "original", in_words(value), location(value), note=note)
        self._add(replace(report, by="somebody", kind=theirs) if is_theirs else report)
        self._tell_decorators(inner(value))
        return ABSENT

    def _tell_decorators(self, function: Any) -> None:
        """Take wrappers right over a function for its module's, as many as its source decorates it with."""
        if type(function) is not FunctionType:
            return
        found = bindings(_imports.loaded(str(function.__module__)), function.__qualname__.split(".")) or ()
        own = [one for one in found if location(function) == f"{function.__code__.co_filename}:{one.line}"]
        at = len(self.found) - 2
        for _ in range(own[-1].decorators if own else 0):
            if at >= 0 and self.found[at].by == "somebody" and self.found[at].kind.startswith("functools."):
                note = f"a guess: {location(function)} decorates it"
                self.found[at] = replace(self.found[at], by="module", note=note)
            at -= 1


_FORMS: Final = {staticmethod: "a static method", classmethod: "a class method", property: "a property"}


def _stood(value: Any, slot: Slot, site: Site | None) -> bool:
    """Tell whether a value is one of ours, or what a slot held before, or stands over one of them."""
    for _ in range(_DEEP):
        if is_ours(value) or (site is not None and value is site.original) or origin(value, slot)[0] is False:
            return True
        over = wrapping(value, slot)
        if over is None:
            return False
        value = over.below
    return False


_DEEP: Final = 20  # how many wrappers of others are looked through


def _provider(slot: Slot) -> Slot | None:
    """Return the slot from which an owner inherits what it has not itself."""
    if not isinstance(slot, AttributeSlot) or isinstance(slot.owner, ModuleType):
        return None
    kind = slot.in_class
    bases = mro(type(slot.owner) if kind is None else kind)
    for base in bases[kind is not None :]:
        if (there := AttributeSlot(base, slot.name)).read() is not ABSENT:
            return there
    return None
