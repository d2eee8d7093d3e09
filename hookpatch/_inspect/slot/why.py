"""Report the layers of a slot from outside in: our patches, foreign wrappers, the original. Calls no layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.target import Item, Target
from hookpatch._engine.rules.entries import value_without_code
from hookpatch._engine.rules.match import addresses_of
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.resolve import missing, resolve, seen_from
from hookpatch._engine.slots.slot import Slot, inner, mro
from hookpatch._inspect.slot.report import LayerReport, SlotReport
from hookpatch._inspect.slot.walk import LayerWalk, PatchedSlots

_ASKED_BY: Final = "hookpatch.why()"


def why(target: str | Target) -> SlotReport:
    """Return the layers of a slot: patches, foreign wrappers, the original.

    Imports, calls and changes nothing. A foreign wrapper is reported as far as known from the wrapper's attributes.

    Args:
        target: the address; for a rule, the report names the slots matched here, without their layers.

    Raises:
        TargetSyntaxError: the address cannot be parsed.
        TargetNotFound: a step of the address does not exist.
        TargetRefused: a step asks for an item of an object without items.
    """
    target = target if isinstance(target, Target) else Target(target)
    if target.is_rule or target.written_out:
        slots = ", ".join(addresses_of(target))
        return SlotReport(str(target), bool(slots), (), f"stands for {slots or 'nothing'} here; ask for one slot")
    for name in modules_of(target):
        if imports.loaded(name) is None:
            return SlotReport(str(target), False, (), f"{name} is not imported in this process")
    module = imports.loaded(target.module) if target.module is not None else None
    slot = seen_from(target, module, _ASKED_BY, read=_read)
    now = PatchedSlots()
    walk = LayerWalk(now)
    walk.slot(slot)
    if not walk.layers:
        raise missing(slot, target, _ASKED_BY)
    layers, of_class = walk.layers, ""
    if target.of_instances is not None:
        of_single = [*_of_single_instances(target, module, now)]
        if of_single and all(layer.by != "hookpatch" for layer in layers):
            layers = []  # no call gets to the slot of the class
        of_class = f"the instances share {slot}" if layers else ""
        layers = [*layers, *of_single]
    on_the_way = _patched_on_the_way(target, module, now)
    notes = filter(None, [of_class, *on_the_way, *dict.fromkeys(walk.notes), *_of_source(target.module)])
    return SlotReport(str(target), True, tuple(layers), "; ".join(notes) or None)


def _of_single_instances(target: Target, module: ModuleType | None, now: PatchedSlots) -> Iterator[LayerReport]:
    """Yield the layers of instances with patches of their own, once for all with the same layers."""
    slots = _patched_in_instances(target, module, now)
    alike: dict[str, list[list[LayerReport]]] = {}
    for slot in slots:
        walk = LayerWalk(now)
        walk.slot(slot)
        alike.setdefault("\n".join(map(str, walk.layers)), []).append(walk.layers)
    for stacks in alike.values():
        [outermost, *inner_layers], count = stacks[0], len(stacks)
        where = f"in {count} of {len(slots)} instances with a patched place of their own"
        yield replace(outermost, note="; ".join(filter(None, [where, outermost.note])))
        yield from inner_layers


def _patched_in_instances(target: Target, module: ModuleType | None, now: PatchedSlots) -> list[Slot]:
    """Return the patched slots of single instances: of the attribute in each, or where exchanged instances hang."""
    assert target.of_instances is not None
    place = target.steps.index(target.of_instances)
    slots = [(site.slot, [layer.patch.target for layer in site.layers]) for site in now.sites.values()]
    if place == len(target.steps) - 1:
        return [slot for slot, targets in slots if target in targets]
    slot = resolve(Target(target.up_to(place)), module, _ASKED_BY, read=_read)
    cls, name = beneath(slot), str(target.slot).removeprefix(".")
    own = [slot for slot, _ in slots if isinstance(slot, AttributeSlot) and slot.in_class is None and slot.name == name]
    return [slot for slot in own if cls in mro(type(slot.owner))]


def _of_source(module: str | None) -> Iterator[str]:
    """Yield a note for a module with source changed before the run."""
    loading: Any = imports.loaded("hookpatch._engine.source.loading")  # imported once a module's source was changed
    if module is not None and loading is not None and (changes := loading.who_changed(module)):
        yield f"{module} runs from changed source: {', '.join(changes)}"


def modules_of(target: Target) -> Iterator[str]:
    """Yield the modules in an address: the module of the target, and the modules of its keys."""
    if target.module is not None:
        yield target.module
    for step in target.steps:
        if isinstance(step, Item) and isinstance(step.key, Target):
            yield from modules_of(step.key)


def _read(owner: Any, name: str) -> Any:
    return inner(value_without_code(owner, name))


def _patched_on_the_way(target: Target, module: ModuleType | None, now: PatchedSlots) -> Iterator[str]:
    """Yield a note for each step of an address with a patched slot, except the last step."""
    for count in range(1, len(target.of_class.steps)) if target.module is not None else ():
        way = Target(target.of_class.up_to(count))
        if resolve(way, module, _ASKED_BY, read=_read).key in now.sites:
            yield f"{way} is patched, too; this slot belongs to the original value there"
