"""The instances meant by an address: of a class, with or without subclasses, of all objects or of an object's parts."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.referrers import all_but_tuples, classes
from hookpatch._engine.slots.slot import ABSENT, along_mro, is_abstract, mro

IsMeant: TypeAlias = Callable[[Any], bool]
_MANY: Final = 16  # with more classes a loop beats gc.get_referrers, which compares each reference with each class
_MOST: Final = 3  # named subclasses; further subclasses are counted


@final
@dataclass(frozen=True, slots=True, eq=False)
class Meant:
    """The instances meant by ``Class()`` or ``Class+()``, among the parts of one object if ``parts`` is given.

    Attributes:
        parts: the parts by id, kept alive, so that no other object gets the id of a part; None for all instances.
        only: asked at each call whether the instance is meant; None without a question. May raise.
        wants: asked when an instance is found.
    """

    cls: type
    with_subclasses: bool
    parts: Mapping[int, Any] | None = None
    only: Callable[[Any], object] | None = None
    wants: IsMeant = lambda _: True
    _owners: dict[str, Owners] = field(default_factory=dict)

    def takes(self, instance: Any) -> bool:
        """Return True if an object is meant, or may be. No foreign code runs: the class is compared, not asked."""
        return self.means_class(type(instance)) and (self.parts is None or id(instance) in self.parts)

    def means_class(self, kind: type) -> bool:
        """Return True if instances of a class are meant."""
        return _is_kind_of(kind, self.cls, self.with_subclasses)

    def covers(self, other: Meant) -> bool:
        """Return True if all instances meant by another address are meant."""
        if self.only is not None and self.only is not other.only:
            return False
        is_part = self.parts is None or (other.parts is not None and other.parts.keys() <= self.parts.keys())
        return is_part and self.means_class(other.cls) and (self.with_subclasses or not other.with_subclasses)

    def meets(self, other: Meant) -> bool:
        """Return True if an instance may be meant by this address and by another."""
        is_apart = self.parts is not None and other.parts is not None and self.parts.keys().isdisjoint(other.parts)
        return not is_apart and (self.means_class(other.cls) or other.means_class(self.cls))

    def owners(self, name: str) -> Owners:
        """Return the classes in which meant instances find the method of a name."""
        return self._owners.setdefault(name, Owners(self, name))

    @property
    def kinds(self) -> list[type]:
        """The classes of meant instances, as of now: of the parts, if parts are meant."""
        if self.parts is None or not self.with_subclasses:
            return _kinds(self.cls, self.with_subclasses)
        kinds = {id(kind): kind for kind in map(type, self.parts.values()) if self.means_class(kind)}
        return [*kinds.values()] or [self.cls]

    def living(self) -> list[Any]:
        """Return the meant living instances known to the garbage collector."""
        if self.parts is not None:
            return [part for part in self.parts.values() if self.means_class(type(part))]
        return _instances_of([kind for kind in self.kinds if not _is_of_proxies(kind)])

    def left_out(self, patched: Container[int]) -> str:
        """Return the number of living instances of unmeant subclasses, in words; empty without instances.

        ``patched``: the ids of instances that are patched, whatever class other code has given them since.
        """
        subclasses = [cls for cls in [*classes(self.cls)][1:] if not _is_of_proxies(cls)]
        if not self.with_subclasses and is_abstract(self.cls):
            name = describe(self.cls)
            return f"without effect: {name} is abstract, and has no instances but those of subclasses; take {name}+()"
        if self.with_subclasses or not subclasses:
            return ""
        by_id = {id(cls): cls for cls in subclasses}
        instances = self.parts.values() if self.parts is not None else _instances_of(subclasses)
        unpatched = (instance for instance in instances if id(instance) not in patched)
        count = Counter(id(type(instance)) for instance in unpatched if id(type(instance)) in by_id)
        described = sorted(f"{describe(by_id[number])} ({times})" for number, times in count.items())
        remainder = f" and of {len(described) - _MOST} more" if len(described) > _MOST else ""
        way = f"{describe(self.cls)}+() takes them, too"
        return (
            f"without effect on instances of subclasses: {', '.join(described[:_MOST])}{remainder}; {way}"
            if described
            else ""
        )

    def test_for(self, owner: type, name: str) -> IsMeant:
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
        owners = self.owners(name)
        looks_up: dict[type, bool] = {kind: owners.owner_of(kind) is owner for kind in self.kinds}

        def is_meant(instance: Any) -> bool:
            kind = type(instance)
            if kind not in looks_up:  # a new subclass
                looks_up[kind] = owners.owner_of(kind) is owner
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


def _is_kind_of(kind: type, cls: type, with_subclasses: bool) -> bool:
    return kind is cls or (with_subclasses and cls in mro(kind))


def _kinds(cls: type, with_subclasses: bool) -> list[type]:
    return [*classes(cls)] if with_subclasses else [cls]


def _instances_of(kinds: Sequence[type]) -> list[Any]:
    """Return the living instances of some classes: an instance refers to the class."""
    ids = {*map(id, kinds)}
    objects = all_but_tuples() if len(kinds) > _MANY else gc.get_referrers(*kinds)
    return [instance for instance in objects if id(type(instance)) in ids]


@final
class Owners:
    """The classes in which meant instances find a method; subclasses made later, too.

    Each class of instances keeps its owner, although other patches put values into classes between. So each call finds
    one layer.
    """

    __slots__ = ("_done", "_meant", "_name", "_of")

    def __init__(self, meant: Meant, name: str) -> None:
        self._meant: Final = meant
        self._name: Final = name
        self._of: dict[int, tuple[type, type | None]] = {}  # by the id of a class of instances
        self._done: Final[set[int]] = set()  # the ids of owners with a layer
        self._of = {id(kind): (kind, self._owner_for(kind, set())) for kind in meant.kinds}

    def owner_of(self, kind: type) -> type | None:
        """Return the owner for instances of a class; None for instances that are not meant."""
        if id(kind) not in self._of:
            self._of[id(kind)] = kind, self._owner_for(kind, {id(owner) for _, owner in [*self._of.values()]})
        return self._of[id(kind)][1]

    def _owner_for(self, kind: type, owners: set[int]) -> type | None:
        for base in mro(kind) if self._meant.means_class(kind) else ():
            is_owner = id(base) in owners or (id(base) not in self._of and self._name in vars(base))
            if is_owner or base is self._meant.cls:
                return base
        return None

    def current_owners(self) -> list[type]:
        """Return the owners for the classes of instances as of now."""
        owners = [self.owner_of(kind) for kind in self._meant.kinds]
        return [*{id(owner): owner for owner in owners if owner is not None}.values()]

    def new_owners(self) -> Iterator[type]:
        """Yield each owner that was not yielded before. An owner counts as yielded when the next owner is requested."""
        for owner in self.current_owners():
            if id(owner) not in self._done:
                yield owner
                self._done.add(id(owner))

    def is_new(self, kind: type) -> bool:
        """Return True if instances of a class are meant, and their owner was not yielded yet."""
        owner = self.owner_of(kind)
        return owner is not None and id(owner) not in self._done


def is_method(cls: type, name: str) -> bool:
    """Return True if instances of a class have a name as a method, which gets the instance at each call."""
    member, original = along_mro(cls, name), beneath(AttributeSlot(cls, name))
    is_other = isinstance(member, (staticmethod, classmethod, type))
    binding = member if original is ABSENT else original  # our proxy of a callable object binds, too
    return not is_other and callable(member) and hasattr(type(binding), "__get__")
