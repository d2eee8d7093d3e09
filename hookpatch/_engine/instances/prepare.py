"""Find the class of an address of instances, and refuse a patch that does not fit its instances."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.instances.births import of_making
from hookpatch._engine.instances.exchange import Exchange
from hookpatch._engine.instances.living import Living
from hookpatch._engine.instances.meant import Meant, OfInstances, is_method
from hookpatch._engine.instances.methods import OnlyFor, for_instance, goes_into_class
from hookpatch._engine.instances.parts import parts_of
from hookpatch._engine.instances.travel import listen_for_states, of_copies
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import call_guarded, raised, text_of
from hookpatch._engine.patch.steps import is_dunder
from hookpatch._engine.patch.target import Attribute, Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.guard import check_slot
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.resolve import if_added, missing, resolve
from hookpatch._engine.slots.slot import ABSENT, KEPT, along_mro
from hookpatch.errors import ApplyError, TargetRefused

__all__ = [
    "Exchange",
    "Living",
    "OnlyFor",
    "awaited_module",
    "check",
    "for_instance",
    "listen_for_states",
    "object_of",
    "of_copies",
    "of_making",
    "prepared",
]


def prepared(patch: Patch, module: ModuleType | None, owner: str, home: ModuleType | None = None) -> OfInstances:
    """Return the class and the kind of an attribute of instances; change nothing.

    ``home``: the module of the object given as of=, if the module was executed just now.

    Raises:
        TargetNotFound: the class does not exist.
        TargetRefused: the object before ``()`` is no class, or the instances have no place for the attribute.
        SignatureError: the patch of a method does not fit.
    """
    target = patch.target
    assert target is not None  # the caller has checked
    assert target.of_instances is not None
    place = target.steps.index(target.of_instances)
    cls = _class_at(Target(target.up_to(place)), module, owner)
    parts = None if patch.of is None else parts_of(object_of(patch, owner, home))
    meant = Meant(cls, target.of_instances.with_subclasses, parts)
    if patch.only is not None:
        wants = partial(_wants, patch, owner)
        if parts is None:
            meant = replace(meant, only=patch.only, wants=wants)
        else:
            wanted = {key: part for key, part in parts.items() if not meant.takes(part) or wants(part)}
            meant = replace(meant, parts=wanted)
    step = target.slot
    if step is target.of_instances:
        return OfInstances(meant, "", (), False)
    assert isinstance(step, Attribute)  # the verb has refused the others
    name, of_class = step.name, f"{target.up_to(place)}.{step.name}"
    if is_dunder(name):
        problem = f"Python looks '{name}' up in the class, not in an instance; patch {of_class}"
        if name == "__class__":
            problem = "the class of an instance stays; patch the methods, or exchange submodules of a model by derive"
        raise TargetRefused(patch.address, owner, problem)
    has_dict = cls.__dictoffset__ != 0
    if is_method(cls, name) and goes_into_class(patch):
        slots = tuple(AttributeSlot(definer, name) for definer in meant.owners(name).current_owners())
        for slot in slots:
            check_slot(patch, slot, own_beneath(slot), owner)
        return OfInstances(meant, name, slots, has_dict and cls.__weakrefoffset__ != 0)
    if not (has_dict or isinstance(along_mro(cls, name), KEPT)) or not cls.__weakrefoffset__:
        obstacle = "have no place for one of their own" if cls.__weakrefoffset__ else "cannot be referred to weakly"
        problem = f"instances of {describe(cls)} {obstacle} (__slots__ or a C class)"
        raise TargetRefused(patch.address, owner, f"{problem}; patch {of_class}")
    return OfInstances(meant, name, (), True)


def _wants(patch: Patch, owner: str, instance: Any) -> bool:
    """Return the answer of ``only=`` for an instance; raise ApplyError for an error of its own."""
    assert patch.only is not None  # the caller has checked
    try:
        return bool(call_guarded(patch.only, instance))
    except Exception as error:
        if is_interrupt(error):
            raise
        problem = f"only= {raised(error)} for {a_kind(instance)}{text_of(error)}"
        raise ApplyError(patch.address, owner, problem) from error


def check(patch: Patch, module: ModuleType | None, owner: str) -> None:
    """Raise for a patch that does not fit the class, a living instance, or the model; change nothing."""
    of_instances = prepared(patch, module, owner)
    if of_instances.name:
        Living(of_instances, patch, owner, lambda slot: lambda: None).adopt_all()
    else:
        Exchange(of_instances, patch, object_of(patch, owner, None), owner)


def object_of(patch: Patch, owner: str, home: ModuleType | None) -> Any:
    """Return the object given as of=: an object, or found by an address in an imported module."""
    if not isinstance(patch.of, Target):
        return patch.of
    slot = resolve(patch.of, home or imports.present(str(patch.of.module)), owner)
    value = beneath(slot)
    if value is ABSENT:
        raise missing(slot, patch.of, owner)
    return value


def awaited_module(patch: Patch) -> str | None:
    """Return the name of the module whose import the search for parts awaits; None without a wait."""
    name = patch.of.module if isinstance(patch.of, Target) else None
    return None if name is None or imports.present(name) is not None else name


def _class_at(target: Target, module: ModuleType | None, owner: str) -> type:
    slot = resolve(target, module, owner)
    cls: Any = beneath(slot)
    if cls is ABSENT:
        raise missing(slot, target, owner, remedy=if_added(slot))
    if not isinstance(cls, type):
        problem = f"{target} is {a_kind(cls)}, and '()' stands behind a class, for its instances"
        raise TargetRefused(target.address, owner, problem)
    return cls
