"""Say what a program does not see of a patch: Python or the program looks past the slot, or has noted the value."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.signatures import names_not_shown
from hookpatch._engine.patch.describe import a_kind, describe
from hookpatch._engine.patch.patch import GIVING_VERBS, Patch
from hookpatch._engine.patch.steps import is_looked_up_in_class
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import has_cache, innermost
from hookpatch._engine.slots.referrers import classes
from hookpatch._engine.slots.slot import ABSENT, Slot, along_mro, attributes_of, is_class_of_program, mro

_GETS_THE_CLASS: Final = ("__init_subclass__", "__class_getitem__")  # a class statement makes these class methods
_NAMED: Final = (property, cached_property)  # need no name, or get it from hookpatch
_FROM_BEFORE: Final = "from before the patch, and of the patch after its end"

_DECORATED: Final = "the function inside its decorators is edited"
_CACHED: Final = (
    "a functools.lru_cache around the function keeps results from before the patch, and of the patch after its end"
)


def doubts(patch: Patch, slot: Slot, own: Any, value: Any) -> tuple[str, ...]:
    """Return in words what the program does not see of a patch, or sees of the proxy of a class; mostly empty.

    ``own``: the value of the slot's owner without our layers, or ABSENT; ``value``: the callable that calls reach.
    """
    names = ", ".join(map(repr, names_not_shown(value, patch.change) if patch.verb in GIVING_VERBS else ()))
    problem = f"the target takes *args and **kwargs, and shows no parameter {names}, as behind a decorator"
    way = "a call that gives the argument by place gives it twice; take hookpatch.wrap there"
    not_shown = (f"{problem}: {way}",) if names else ()
    return (*_doubts_of_slot(patch, slot, value), *not_shown, *_noted_before(patch, slot, own))


def _doubts_of_slot(patch: Patch, slot: Slot, value: Any) -> tuple[str, ...]:
    # __getattr__ and __dir__ of a module are in its own names.
    is_of_object = not isinstance(slot.owner, (type, ModuleType))
    if isinstance(slot, AttributeSlot) and is_of_object and is_looked_up_in_class(slot.name):
        name, cls = slot.name, type(slot.owner)
        problem = f"Python looks '{name}' up in the class, not in an object: only a call written `x.{name}` is patched"
        return (f"{problem}; patch {describe(cls)}.{name}" if is_class_of_program(cls) else problem,)
    if not (patch.is_around_calls and issubclass(type(value), type)):
        return ()
    name = value.__name__
    refused = f"super({name}, self), `except {name}` and `case {name}()` raise a TypeError"
    way = f"wrap {name}.__init__ or derive a subclass where that matters"
    for_help = "a patch of pydoc shows the class in help()"
    return (f"a proxy stands for the class: `type(x) is {name}` is False, and {refused}; {way}; {for_help}",)


def _noted_before(patch: Patch, slot: Slot, own: Any) -> Iterator[str]:
    """Yield in words what Python or the program has noted of the value, and does not look up again."""
    if not isinstance(slot, AttributeSlot):
        return
    cls, name = slot.in_class, slot.name
    computed = slot.inherited() if own is ABSENT and cls is not None else own  # of a class: no __getattr__ runs
    for value in (slot.owner, computed):
        if issubclass(type(value), cached_property):  # isinstance would ask the value
            drop = f"vars(object).pop('{value.attrname or name}', None) drops it"
            yield f"objects keep the value of a cached_property {_FROM_BEFORE}; {drop}"
    if patch.is_around_calls:
        if name == "__subclasshook__":
            yield f"isinstance() and issubclass() keep answers {_FROM_BEFORE}"
        return
    if cls is None:
        yield from _noted_of_object(slot)
        return
    if type(own) is MemberDescriptorType and not hasattr(type(patch.change), "__set__"):
        problem = f"'{name}' is in the __slots__ of {describe(cls)}: instances can no longer set the attribute"
        yield f"{problem}; patch {cls.__name__}().{name}"
    if patch.verb == "replace":
        yield from _lacks_its_name(patch.change, cls, name)
    if name in _GETS_THE_CLASS and patch.verb == "replace" and type(patch.change) is FunctionType:
        yield f"Python makes {name} a class method in a class statement alone; give classmethod(function)"
    is_abstract = issubclass(type(cls), ABCMeta) and patch.verb != "edit"
    if is_abstract and any(name in getattr(base, "__abstractmethods__", ()) for base in mro(cls)):
        way = f"call abc.update_abstractmethods({cls.__name__}) inside and after the end"
        yield f"Python noted before which methods of {describe(cls)} are abstract; {way}"
    is_new = own is ABSENT and slot.inherited() is ABSENT
    is_asked_for = is_new or patch.verb == "remove" or (patch.verb == "replace" and patch.change is None)
    if name == "__subclasshook__" or (is_asked_for and _is_of_interface(name)):
        yield f"isinstance() and issubclass() of an abstract class or protocol keep answers {_FROM_BEFORE}"


def _noted_of_object(slot: AttributeSlot) -> Iterator[str]:
    kind = type(slot.owner)
    enum: Any = imports.loaded("enum")
    if enum is not None and issubclass(kind, enum.Enum) and slot.name in ("_value_", "_name_"):
        yield f"{kind.__name__}(value) and {kind.__name__}[name] find members as noted when the class was made"
    yield from values_hidden_by(kind)


def values_hidden_by(cls: type) -> Iterator[str]:
    """Yield a doubt for a class whose own ``__getattribute__`` may hide the values of slots."""
    if type(along_mro(cls, "__getattribute__")) is FunctionType:
        yield f"the __getattribute__ of {describe(cls)} may show another value than that of the slot"


def _is_of_interface(name: str) -> bool:
    """Return True if an abstract class of Python or a protocol asks whether a class has a name."""
    if is_looked_up_in_class(name):
        return True
    typing: Any = imports.loaded("typing")
    return typing is not None and any(
        name in vars(cls) for cls in classes(typing.Protocol) if cls is not typing.Protocol
    )


def _lacks_its_name(value: Any, cls: type, name: str) -> Iterator[str]:
    """Yield in words that a given descriptor may not know its name: Python tells the name in a class statement alone.

    hookpatch does not: the descriptor may belong to another class.
    """
    if type(value) in _NAMED or along_mro(type(value), "__set_name__") is ABSENT:
        return
    attributes = attributes_of(value)
    known = dict.values(attributes) if type(attributes) is dict else ()
    if not any(type(text) is str and name in text for text in known):
        way = f"call value.__set_name__({cls.__name__}, {name!r}) before, or derive: the factory's descriptor is told"
        yield f"only a class statement tells the given {a_kind(value).partition(' ')[2]} its name; {way}"


def doubts_around(patch: Patch, slot: Slot, shown: Any) -> tuple[str, ...]:
    """Return in words the decorators, and the cache of results, around a function changed in place."""
    inside = innermost(shown) if patch.verb == "edit" else shown
    if type(inside) is not FunctionType or patch.reach == "slot" or patch.is_narrowed:
        return ()
    decorated = () if inside is shown else (_DECORATED,)
    is_cached = has_cache(slot.owner) or has_cache(shown)
    return (*decorated, f"{_CACHED}; call cache_clear() in both") if is_cached else decorated
