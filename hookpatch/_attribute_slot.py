"""An attribute as a slot; the only file that sets or deletes foreign attributes."""

from __future__ import annotations

from functools import partial
from types import BuiltinMethodType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final, final

from hookpatch._slot import ABSENT, KEPT, along_mro
from hookpatch._target import describe


@final
class AttributeSlot:
    """An attribute of a module, class or instance.

    One that its owner hands on to something else by ``__setattr__`` and ``__delattr__`` of its own, as a proxy does, is
    treated as unittest.mock treats it: set; at the end deleted, and set to what was there if that is not there then.

    Attributes:
        key: what two slots share when they are the same place.
    """

    __slots__ = ("_handed_on", "_member", "key", "name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner: Final = owner
        self.name: Final = name
        self.key: Final[tuple[Any, ...]] = ("attribute", id(owner), name)
        self._handed_on: tuple[Any] | None = None  # what was there before, while something of ours is
        member = along_mro(type(owner), name)
        self._member: Final = member if isinstance(member, KEPT) and name != "__dict__" else None

    @property
    def in_class(self) -> type | None:
        """The owner when it is a class, so that functions in it are methods."""
        return self.owner if isinstance(self.owner, type) else None

    def read(self) -> Any:
        """Return the owner's *own* value, never a bound or inherited one, or ABSENT."""
        if self._member is not None:
            try:
                return self._member.__get__(self.owner)
            except AttributeError:
                return ABSENT
        try:
            own = vars(self.owner).get(self.name, ABSENT)
        except TypeError:  # it has no __dict__
            own = ABSENT
        if own is not ABSENT or self._handed_on is None:
            return own
        now = self._fetched()
        return ABSENT if _alike(now, self._handed_on[0]) else now

    def inherited(self) -> Any:
        """Return what the owner has from elsewhere when it has nothing of its own, or ABSENT."""
        if self._handed_on is not None:
            return self._handed_on[0]
        if self.in_class is not None:
            return along_mro(self.in_class, self.name, past_owner=True)
        found = along_mro(type(self.owner), self.name)
        if found is ABSENT:
            return self._fetched()
        if found is self._member:
            return ABSENT  # a slot of __slots__ that nobody has set
        if hasattr(type(found), "__set__") or not hasattr(type(found), "__get__"):
            return found  # a property is not run
        return found.__get__(self.owner, type(self.owner))

    def _fetched(self) -> Any:
        """Return what the owner's ``__getattr__`` gives, or a ``__getattribute__`` of its own; or ABSENT."""
        kind = type(self.owner)
        fetch = along_mro(kind, "__getattr__")
        fetch = fetch.__get__(self.owner) if fetch is not ABSENT else None
        if isinstance(self.owner, ModuleType):
            fetch = vars(self.owner).get("__getattr__", fetch)  # PEP 562
        elif along_mro(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
            fetch = partial(getattr, self.owner)
        try:
            return fetch(self.name) if fetch is not None else ABSENT
        except AttributeError:
            return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there."""
        if self._handed_on is None and self.is_handed_on:
            self._handed_on = (self._fetched(),)
        setattr(self.owner, self.name, value)

    def delete(self) -> None:
        """Make it absent."""
        delattr(self.owner, self.name)
        if self._handed_on is not None:
            (before,), self._handed_on = self._handed_on, None
            if before is not ABSENT and not _alike(self._fetched(), before):
                setattr(self.owner, self.name, before)

    @property
    def is_handed_on(self) -> bool:
        """True when what is set here lands in something else, and nothing of that name is the owner's own."""
        if isinstance(self.owner, (ModuleType, type)) or self.read() is not ABSENT:
            return False
        is_own_setter = along_mro(type(self.owner), "__setattr__") is not vars(object)["__setattr__"]
        return is_own_setter and along_mro(type(self.owner), self.name) is ABSENT

    def __str__(self) -> str:
        mark = ":" if isinstance(self.owner, ModuleType) else "."
        return f"{describe(self.owner)}{mark}{self.name}"


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two values fetched from an owner are one: methods are bound anew at each look."""
    return one is other or (type(one) is type(other) and type(one) in _METHODS and one == other)


_METHODS: Final = (MethodType, BuiltinMethodType, MethodWrapperType)
