"""One place of one owner; the only file that sets or deletes foreign attributes and items.

Reading a slot wakes nothing and makes nothing: no property runs, no defaultdict makes an entry, no lazy module imports.
"""

from __future__ import annotations

from collections.abc import MutableMapping, MutableSequence
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final, TypeAlias, final

from hookpatch._target import describe
from hookpatch._trampoline import Swap


@final
class _Absent:
    """The type of ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@final
class AttributeSlot:
    """An attribute of a module, class or instance."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner: Final = owner
        self.name: Final = name

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "attribute", id(self.owner), self.name

    @property
    def in_class(self) -> type | None:
        """The owner when it is a class, so that functions in it are methods."""
        return self.owner if isinstance(self.owner, type) else None

    def read(self) -> Any:
        """Return the owner's *own* value, never a bound or inherited one, or ABSENT."""
        member = along_mro(type(self.owner), self.name)
        if isinstance(member, MemberDescriptorType):
            try:
                return member.__get__(self.owner)
            except AttributeError:
                return ABSENT
        return vars(self.owner).get(self.name, ABSENT) if hasattr(self.owner, "__dict__") else ABSENT

    def inherited(self) -> Any:
        """Return what the owner has from elsewhere when it has nothing of its own, or ABSENT."""
        if self.in_class is not None:
            return along_mro(self.in_class, self.name, past_owner=True)
        found = along_mro(type(self.owner), self.name)
        if found is ABSENT:
            return self._fetched()
        if hasattr(type(found), "__set__") or not hasattr(type(found), "__get__"):
            return found  # a property is not run
        return found.__get__(self.owner, type(self.owner))

    def _fetched(self) -> Any:
        """Return what the owner's ``__getattr__`` gives, or ABSENT."""
        fetch = along_mro(type(self.owner), "__getattr__")
        fetch = fetch.__get__(self.owner) if fetch is not ABSENT else None
        if isinstance(self.owner, ModuleType):
            fetch = vars(self.owner).get("__getattr__", fetch)  # PEP 562
        try:
            return fetch(self.name) if fetch is not None else ABSENT
        except AttributeError:
            return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there."""
        setattr(self.owner, self.name, value)

    def delete(self) -> None:
        """Make it absent."""
        delattr(self.owner, self.name)

    def __str__(self) -> str:
        mark = ":" if isinstance(self.owner, ModuleType) else "."
        return f"{describe(self.owner)}{mark}{self.name}"


@final
class ItemSlot:
    """An entry of a mapping or a list."""

    __slots__ = ("_followers", "index", "owner")

    def __init__(self, owner: MutableMapping[Any, Any] | MutableSequence[Any], index: Any) -> None:
        self.owner: Final[Any] = owner
        self.index: Final = index
        self._followers: frozenset[Any] = frozenset()

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "item", id(self.owner), self.index

    @property
    def in_class(self) -> None:
        """None: what lies in a mapping or list is never a method."""
        return None

    def read(self) -> Any:
        """Return the value, or ABSENT."""
        if isinstance(self.owner, MutableSequence):
            return self.owner[self.index] if self.index < len(self.owner) else ABSENT
        return self.owner[self.index] if self.index in self.owner else ABSENT  # noqa: SIM401 - not every mapping has get

    def inherited(self) -> Any:
        """Return ABSENT: items are not inherited."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there; a key that was deleted goes back to its position."""
        back = bool(self._followers) and self.index not in self.owner
        self.owner[self.index] = value
        if back:
            self._move_back()

    def delete(self) -> None:
        """Make it absent, and note where it was."""
        keys = list(self.owner)
        self._followers = frozenset(keys[keys.index(self.index) + 1 :])
        del self.owner[self.index]

    def _move_back(self) -> None:
        """Move the keys from the first follower on behind ours: a mapping has no other way to insert."""
        keys = [key for key in self.owner if key != self.index]
        first = next((at for at, key in enumerate(keys) if key in self._followers), len(keys))
        self._followers = frozenset()
        for key in keys[first:]:
            self.owner[key] = self.owner.pop(key)

    def __str__(self) -> str:
        return f"{describe(self.owner)}[{self.index!r}]"


@final
class FunctionSlot:
    """The code of a Python function, for patches that hold wherever the function is bound: its identity stays."""

    __slots__ = ("_before", "_swap", "binds", "owner")

    def __init__(self, function: FunctionType, binds: bool) -> None:
        """Take a function.

        Args:
            function: the function.
            binds: True when its first argument is the object or class that it is called on.
        """
        self.owner: Final = function
        self.binds: Final = binds
        self._swap: Swap | None = None
        self._before: tuple[dict[str, Any] | None, bool] = (None, False)

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "function", id(self.owner)

    @property
    def in_class(self) -> None:
        """None: where the function is bound does not matter here."""
        return None

    def read(self) -> Any:
        """Return the Swap that is in force, else the function's code."""
        code = self.owner.__code__
        return self._swap if self._swap is not None and code is self._swap.code else code

    def inherited(self) -> Any:
        """Return ABSENT: a function always has code of its own."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Put a Swap, or the code of before, into the function.

        A call that has begun has its code and its defaults already; the order here is for one that begins between.
        """
        function = self.owner
        if isinstance(value, Swap):
            if self._swap is None:
                self._before = function.__kwdefaults__, "__signature__" in vars(function)
            function.__kwdefaults__ = value.keyword_defaults
            function.__code__ = value.code
            if not self._before[1]:
                function.__signature__ = value.signature  # type: ignore[attr-defined]  # PEP 362: inspect reads it
            self._swap = value
            return
        function.__code__ = value
        function.__kwdefaults__, had_signature = self._before
        if not had_signature:
            vars(function).pop("__signature__", None)
        self._swap = None

    def __str__(self) -> str:
        return f"{self.owner.__module__}:{self.owner.__qualname__}"


Slot: TypeAlias = AttributeSlot | ItemSlot | FunctionSlot


def along_mro(owner: type, name: str, past_owner: bool = False) -> Any:
    """Return the first entry of that name along a class's MRO, as it lies there, or ABSENT."""
    for base in type.__dict__["__mro__"].__get__(owner)[past_owner:]:
        if name in vars(base):
            return vars(base)[name]
    return ABSENT
