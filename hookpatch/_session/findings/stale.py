"""Find the names and places that hold the original of a patch, and therefore call past the patch."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress, repeat
from operator import is_
from types import MethodType, ModuleType
from typing import Any, Final, final
from weakref import WeakMethod

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.instances.living import Living
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.target import Attribute, Target
from hookpatch._engine.site.caches import caches_of
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.sites import site_of
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.holders import Holder, holders
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.part import own_places
from hookpatch._engine.slots.referrers import all_but_tuples, classes, lists_references
from hookpatch._engine.slots.slot import ABSENT, Slot, attributes_of, inner, is_same_value, mro
from hookpatch._engine.slots.trial import UNSEEN
from hookpatch._session.findings.overridden import overridden
from hookpatch._session.ledger import Entry
from hookpatch._session.lifecycle.applied import AppliedInstances, AppliedLayer

_COPY: Final = " (a second copy of the module)"


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sought:
    """An object whose holders call past a patch.

    Attributes:
        takes: returns True if a holder calls past the patch; None if each holder does.
    """

    entry: Entry
    original: Any
    takes: Callable[[Holder], bool] | None = None


def note_stale(entries: Sequence[Entry]) -> None:
    """Note in applied entries which names and places hold the originals: one pass over all objects."""
    every = [sought for entry in entries for sought in _sought(entry)]
    if recognisable := [sought for sought in every if is_recognisable(sought.original)]:
        _look_for_stale(recognisable)
    second_copies = cache(_second_copies)  # one look at all modules for each module with a target
    for entry in entries:
        _note_names(entry, second_copies)


def note_caches(entries: Sequence[Entry]) -> None:
    """Note in entries of applied and of ended patches which other functions may keep results of the target."""
    noted: list[tuple[Entry, Any, str]] = []
    for entry in entries:
        target = entry.request.patch.target
        if target is not None and target.module is not None and entry.place is None:
            owner, slot = owner_of(target), target.slot
            if isinstance(slot, Attribute) and issubclass(type(owner), (ModuleType, type)):
                noted.append((entry, owner, slot.name))
    for (entry, *_), caches in zip(noted, caches_of([(owner, name) for _, owner, name in noted]), strict=True):
        entry.caches = tuple(caches)


def _sought(entry: Entry) -> Iterator[_Sought]:
    """Yield the original, the inherited function of a class, or the functions of an object's methods."""
    target = entry.request.patch.target
    if isinstance(entry.applied, AppliedInstances):
        yield from _methods_of_instances(entry, entry.applied)
    elif entry.original is not ABSENT or target is None or not isinstance(target.slot, Attribute):
        yield _Sought(entry, entry.original)
    elif issubclass(type(owner := owner_of(target)), type):
        function = inner(beneath(AttributeSlot(owner, target.slot.name)))
        yield _Sought(entry, function, partial(_is_of_heir, owner))
    elif isinstance(entry.applied, AppliedLayer):
        slot = entry.applied.site.slot
        method = None if issubclass(type(slot.owner), ModuleType) else _beneath(slot)
        if type(method) is MethodType and method.__self__ is slot.owner:
            yield _Sought(entry, method.__func__, partial(_is_bound_to, lambda bound: bound is slot.owner))


def _beneath(slot: Slot) -> Any:
    """Return the value beneath our layers, or ABSENT; also if the owner's own code raises an error."""
    try:
        return beneath(slot)
    except Exception as error:
        if is_interrupt(error):
            raise
        return ABSENT


def _methods_of_instances(entry: Entry, applied: AppliedInstances) -> Iterator[_Sought]:
    living = applied.living
    for site in [site for site in [*applied.layers] if site not in applied.hooks]:
        if site.slot.in_class is not None and isinstance(living, Living):
            yield _Sought(entry, inner(beneath(site.slot)), partial(_is_bound_to, living.meant.takes))


def _look_for_stale(every: Sequence[_Sought]) -> None:
    if not lists_references():
        for entry in [sought.entry for sought in every]:
            entry.warnings = (*(message for message in entry.warnings if message != UNSEEN), UNSEEN)
        return
    stale: dict[int, list[Holder]] = {id(sought.original): [] for sought in every}
    # A derived subclass holds its base.
    our_values: Final = {id(value) for sought in every for value in sought.entry.our_values}
    originals = [*{id(sought.original): sought.original for sought in every}.values()]
    found = holders(originals, every=True)
    own_words = {
        sought.entry.request.patch.address for sought in every
    }  # of a class from before @dataclass(slots=True)
    if any(holder.is_nameless or holder.words in own_words for holder in found):
        found.clear()
        gc.collect()  # dead objects hold the original, too
        found = holders(originals, every=True)
    for holder in found:
        if id(holder.holder) not in our_values:
            stale[id(holder.thing)].append(holder)
    is_of_classes = any(isinstance(sought.original, type) for sought in every)
    instances = Counter(map(id, map(type, all_but_tuples()))) if is_of_classes else {}
    for entry in [sought.entry for sought in every]:
        entry.stale = ()
    for sought in every:
        entry, original, takes = sought.entry, sought.original, sought.takes
        selected = [holder for holder in stale[id(original)] if entry.request.goes_to(holder.root)]
        selected = [holder for holder in selected if takes is None or takes(holder)]
        patch = entry.request.patch  # its address: beneath the patch of a static method
        own = set().union([patch.address], *map(own_places, (patch.change, *entry.our_values)))
        selected = [holder for holder in selected if (holder.slot.key if holder.slot else holder.words) not in own]
        named = [_with_count(holder, instances) for holder in selected if not holder.is_nameless]
        nameless = Counter(holder.words for holder in selected if holder.is_nameless)
        names = sorted([*named, *(f"{words} (in {_objects(nameless[words])})" for words in nameless)])
        count = instances.get(id(original), 0) if entry.place is None and patch.verb != "wrap" else 0
        entry.stale = (*entry.stale, *names, *([f"the class of {_living(count)}"] if count else ()))


def _method(holder: Holder) -> Any:
    """Return the bound method that holds a function, also by a weak reference; None for another holder."""
    method = holder.holder() if type(holder.holder) is WeakMethod else holder.holder
    return method if type(method) is MethodType else None


def _is_bound_to(takes: Callable[[Any], bool], holder: Holder) -> bool:
    """Return True for a method bound to an object that ``takes`` returns True for."""
    method = _method(holder)
    return method is not None and takes(method.__self__)


def _is_of_heir(owner: type, holder: Holder) -> bool:
    """Return True for a method bound to an heir of a class, object or class; also for a name in a module."""
    method = _method(holder)
    if method is None:
        is_name = isinstance(holder.slot, AttributeSlot) and isinstance(holder.slot.owner, ModuleType)
        return is_name and "." in getattr(holder.thing, "__qualname__", "")
    of: Any = method.__self__
    return any(cls is owner for cls in (*mro(type(of)), *(mro(of) if isinstance(of, type) else ())))


def _with_count(holder: Holder, instances: Mapping[int, int]) -> str:
    """Return the words of a holder; for a subclass with the number of living instances, deeper subclasses included."""
    is_subclass = holder.slot is None and issubclass(type(holder.holder), type)
    count = sum(instances.get(id(cls), 0) for cls in classes(holder.holder)) if is_subclass and instances else 0
    return f"{describe(holder.holder)} (a subclass, {_living(count)})" if count else holder.words


def _objects(count: int) -> str:
    return f"{count} object{'s' * (count > 1)}"


def _living(count: int) -> str:
    return f"{count} living instance{'s' * (count > 1)}"


def _note_names(entry: Entry, second_copies: Callable[[str], list[ModuleType]]) -> None:
    """Note the names bound from a plain value, second copies of the module, and subclasses that override a method."""
    target = entry.request.patch.target
    if target is None or target.module is None or not isinstance(target.slot, Attribute):
        return
    name, owner = target.slot.name, owner_of(target)
    stale = [words for words in entry.stale if not words.endswith(_COPY)]
    is_class = issubclass(type(owner), type)  # isinstance asks the owner's own code
    if is_class and entry.place is None:
        entry.overridden = overridden(owner, name, is_of_rule=entry.request.rule is not None)
    if entry.original is not None and not is_recognisable(entry.original) and entry.original is not ABSENT:
        from hookpatch._engine.patch.bound_names import baked_in, bound_from  # parses source, and is rarely needed

        is_old = partial(is_same_value, entry.original)
        if is_class:
            stale = baked_in(owner, name, is_old)
        elif issubclass(type(owner), ModuleType):
            stale = sorted(bound_from(target.module, name, is_old))
    loaded = imports.loaded(target.module)
    copies = second_copies(target.module)
    if loaded is not None and any(_is_patched_in(copy, entry, target) for copy in copies):
        copies = [copy for copy in (loaded, *copies) if not _is_patched_in(copy, entry, target)]
    entry.stale = (*stale, *sorted({f"{describe(copy)}{_COPY}" for copy in copies}))


def _is_patched_in(copy: ModuleType, entry: Entry, target: Target) -> bool:
    """Return True if the patch is applied to a second copy of its module: to an earlier import."""
    owner, slot = _owner_in(copy, target), target.slot
    if owner is None or not (isinstance(entry.applied, AppliedLayer) and isinstance(slot, Attribute)):
        return False
    layer = entry.applied.layer
    layers = site_of(AttributeSlot(owner, slot.name)).layers
    return any(laid.patch is layer.patch and laid.rank == layer.rank for laid in layers)


def _second_copies(name: str) -> list[ModuleType]:
    """Return the modules that were executed from the file of a module a second time, as the program itself may be."""
    module = imports.loaded(name)
    file = None if module is None else vars(module).get("__file__")
    if module is None or file is None:
        return []
    listed = _of_file((other for _, other in imports.modules()), module, file)
    every = _of_file(_all_modules(), module, file)
    if every.keys() - listed.keys():  # maybe modules that nobody refers to any more
        every.clear()
        gc.collect()
        every = _of_file(_all_modules(), module, file)
    return [*(listed | every).values()]


def _all_modules() -> Iterator[ModuleType]:
    objects = all_but_tuples()
    return compress(objects, map(is_, map(type, objects), repeat(ModuleType)))


def _of_file(modules: Iterable[ModuleType], module: ModuleType, file: str) -> dict[int, ModuleType]:
    """Return the other modules of a module's file, by their ids."""
    copies = (copy for copy in modules if copy is not module and attributes_of(copy).get("__file__") == file)
    return {id(copy): copy for copy in copies}


def owner_of(target: Target) -> Any:
    """Return the module or class of a target's name; None for another owner. No foreign code runs."""
    return _owner_in(imports.loaded(str(target.module)), target)


def _owner_in(module: ModuleType | None, target: Target) -> Any:
    owner: Any = module
    for step in target.steps[:-1]:
        if not (isinstance(step, Attribute) and issubclass(type(owner), (ModuleType, type))):
            return None
        owner = vars(owner).get(step.name)
        while is_proxy(owner):  # a wrapped class
            owner = owner.__wrapped__
    return owner
