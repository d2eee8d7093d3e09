"""The instances meant by an address: of a class, with or without subclasses, of all objects or of an object's parts."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.referrers import classes
from hookpatch._engine.slots.slot import along_mro, mro

IsMeant: TypeAlias = Callable[[Any], bool]
_MANY: Final = 16  # with more classes a loop beats gc.get_referrers, which compares each reference with each class
_MOST: Final = 3  # named subclasses; further subclasses are counted


@final
@dataclass(frozen=True, slots=True, eq=False)
class Meant:
    """The instances meant by ``Class()`` or ``Class+()``, among the parts of one object if ``parts`` is given.

    Attributes:
        parts: the parts by id, kept alive, so that no other object gets the id of a part; None for all instances.
    """

    cls: type
    with_subclasses: bool
    parts: Mapping[int, Any] | None = None

    def takes(self, instance: Any) -> bool:
        """Return True if an object is meant. No foreign code runs: the class is compared, not asked."""
        return self.is_of(type(instance)) and (self.parts is None or id(instance) in self.parts)

    def is_of(self, kind: type) -> bool:
        """Return True if instances of a class are meant."""
        return kind is self.cls or (self.with_subclasses and self.cls in mro(kind))

    @property
    def kinds(self) -> list[type]:
        """The classes of meant instances, as of now."""
        return [*classes(self.cls)] if self.with_subclasses else [self.cls]

    def living(self) -> list[Any]:
        """Return the meant living instances known to the garbage collector."""
        if self.parts is not None:
            return [part for part in self.parts.values() if self.is_of(type(part))]
        return _instances_of([kind for kind in self.kinds if not _is_of_proxies(kind)])

    def left_out(self) -> str:
        """Return the number of living instances of unmeant subclasses, in words; empty without instances."""
        subclasses = [cls for cls in [*classes(self.cls)][1:] if not _is_of_proxies(cls)]
        if self.with_subclasses or not subclasses:
            return ""
        by_id = {id(cls): cls for cls in subclasses}
        instances = self.parts.values() if self.parts is not None else _instances_of(subclasses)
        count = Counter(id(type(instance)) for instance in instances if id(type(instance)) in by_id)
        described = sorted(f"{describe(by_id[number])} ({times})" for number, times in count.items())
        remainder = f" and of {len(described) - _MOST} more" if len(described) > _MOST else ""
        way = f"{describe(self.cls)}+() takes them, too"
        return (
            f"without effect on instances of subclasses: {', '.join(described[:_MOST])}{remainder}; {way}"
            if described
            else ""
        )

    def at(self, owner: type, name: str) -> IsMeant:
        """Return a test for calls of a method of ``owner``: is the object meant, with ``name`` found in ``owner``?

        A call by ``super()`` from the method of a subclass is therefore not meant.
        """
        cls, parts = self.cls, self.parts
        if not self.with_subclasses:

            def is_exact(instance: Any) -> bool:
                if type(instance) is not cls:
                    if getattr(type(instance), "get_base", None) is None:
                        return False
                    instance = behind_proxy(instance)
                return type(instance) is cls and (parts is None or id(instance) in parts)

            return is_exact
        looks_up: dict[type, bool] = {kind: _owner(kind, name, cls) is owner for kind in self.kinds}

        def is_meant(instance: Any) -> bool:
            kind = type(instance)
            if kind not in looks_up:  # a new subclass
                looks_up[kind] = cls in mro(kind) and _owner(kind, name, cls) is owner
            if parts is not None and getattr(kind, "get_base", None) is not None:
                instance = behind_proxy(instance)
            return looks_up[kind] and (parts is None or id(instance) in parts)

        return is_meant


def behind_proxy(module: Any) -> Any:
    """Return the module behind a proxy of torch.export: the proxy is an instance of a subclass made for the proxy."""
    return module.get_base() if _is_of_proxies(type(module)) else module


def _is_of_proxies(kind: type) -> bool:
    """Return True for a class of a proxy of torch.export."""
    return any((base.__module__, base.__name__) == _PROXY for base in mro(kind))


_PROXY: Final = ("torch.fx.experimental.proxy_tensor", "_AttrProxy")


@final
@dataclass(frozen=True, slots=True, eq=False)
class OfInstances:
    """An attribute of instances, with the class found.

    Attributes:
        name: the attribute.
        in_class: the slots of classes for the patch of a method; empty for a value in each instance.
        has_entries: False if no instance can have a value of its own.
    """

    meant: Meant
    name: str
    in_class: tuple[AttributeSlot, ...]
    has_entries: bool


def _instances_of(kinds: Sequence[type]) -> list[Any]:
    """Return the living instances of some classes: an instance refers to the class."""
    ids = {*map(id, kinds)}
    objects = gc.get_objects() if len(kinds) > _MANY else gc.get_referrers(*kinds)
    return [instance for instance in objects if id(type(instance)) in ids]


def owners_of(meant: Meant, name: str) -> list[type]:
    """Return the classes in which meant instances find the method of a name."""
    return list({id(owner): owner for kind in meant.kinds if (owner := _owner(kind, name, meant.cls))}.values())


def _owner(kind: type, name: str, cls: type) -> type | None:
    """Return the class down to ``cls`` in which instances of a class find a name; ``cls`` for an inherited name."""
    for base in mro(kind):
        if base is cls or name in vars(base):
            return base
    return None


def is_method(cls: type, name: str) -> bool:
    """Return True if instances of a class have a name as a method, which gets the instance at each call."""
    member = along_mro(cls, name)
    is_other = isinstance(member, (staticmethod, classmethod, type))
    return not is_other and callable(member) and hasattr(type(member), "__get__")
