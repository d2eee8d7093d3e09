"""Notice the making of instances.

A class has no single place of making all instances. hookpatch patches these methods: ``__init__``, or a metaclass's
``__call__`` written in Python. Both can be set and deleted exactly, unlike an inherited ``__new__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any, Final, TypeAlias

from hookpatch._engine.instances.meant import IsMeant, Meant, OfInstances, Owners
from hookpatch._engine.patch.patch import Patch, wrap
from hookpatch._engine.patch.target import Target
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.slot import along_mro, inner

Born: TypeAlias = Callable[[Any], None]  # called with each new instance
_WHY: Final = "tells of the instances made inside"


def of_making(of: OfInstances, born: Born) -> Iterator[tuple[AttributeSlot, Patch]]:
    """Yield the slots, each with a patch, that notice the new instances of a class: slots not yielded before."""
    meant = of.meant
    if not of.has_entries or meant.parts is not None:
        return
    if type(inner(along_mro(type(meant.cls), "__call__"))) is FunctionType:  # may change instances after __init__
        yield _around(type(meant.cls), "__call__", _after_call(meant, born))
        return
    owners = meant.owners("__init__")
    for owner in owners.new_owners():
        is_meant = meant.test_for(owner, "__init__")
        # The own __init__ of a subclass made just now has no layer yet: the base's layer notices the instances.
        takes = partial(_is_meant_or_new, is_meant, owners) if meant.with_subclasses else is_meant
        yield _around(owner, "__init__", _after_init(takes, born))


def _is_meant_or_new(is_meant: IsMeant, owners: Owners, instance: Any) -> bool:
    return is_meant(instance) or owners.is_new(type(instance))


def _around(owner: type, name: str, wrapper: Callable[..., Any]) -> tuple[AttributeSlot, Patch]:
    return AttributeSlot(owner, name), wrap(Target.attribute(owner, name), wrapper, why=_WHY)


def _after_call(meant: Meant, born: Born) -> Any:
    def call(wrapped: Any, cls: Any, args: Any, kwargs: Any) -> Any:
        instance = wrapped(*args, **kwargs)
        if meant.takes(instance):
            born(instance)
        return instance

    return call


def _after_init(is_meant: IsMeant, born: Born) -> Any:
    is_bare: dict[type, bool] = {}  # by class: object.__init__ refuses the arguments of an own __new__

    def init(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        kind = type(instance)
        if kind not in is_bare:
            is_bare[kind] = _has_only_new(kind)
        result = wrapped() if is_bare[kind] else wrapped(*args, **kwargs)
        if is_meant(instance):
            born(instance)
        return result

    return init


def _has_only_new(kind: type) -> bool:
    """Return True if a class has an own ``__new__``, but only the ``__init__`` of object."""
    has_new = along_mro(kind, "__new__") is not vars(object)["__new__"]
    return has_new and beneath(AttributeSlot(kind, "__init__")) is vars(object)["__init__"]
