"""The code of a Python function as a slot. No other file changes a foreign function in place."""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from inspect import unwrap
from operator import call
from types import CodeType, FunctionType
from typing import Any, Final, final

from hookpatch._engine.calls.code import LRU_CACHE, decorated
from hookpatch._engine.calls.kept import keeps
from hookpatch._engine.calls.trampoline import TRACED, Attributes, Swap, copy_with_code, lengthen
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, OwnValueSlot, inner


@final
class AttributesInPlace(Attributes):
    """The attributes of a function changed in place: attributes of the program, unlike those of a trampoline."""

    __slots__ = ()


@final
class FunctionSlot(OwnValueSlot):
    """The code of a Python function, for patches wherever the function is bound: its identity stays.

    Attributes:
        attributes: the function's own dict while a Swap is in force, else None.
        binds: True if the function's first argument is the object or class of the call.
        copy: the last result of ``copy_with``.
    """

    __slots__ = (
        "_coming",
        "_former",
        "_is_leaving",
        "_keyword_defaults",
        "_swap",
        "attributes",
        "binds",
        "copy",
        "key",
        "owner",
    )

    def __init__(self, function: FunctionType, binds: bool) -> None:
        self.owner: Final = function
        self.binds: Final = binds
        self.key: Final[tuple[Any, ...]] = ("function", id(function))
        self._swap: Swap | None = None  # in force
        self._coming: Swap | None = None  # being written
        self._is_leaving = False
        self.copy: FunctionType | None = None
        self._keyword_defaults: dict[str, Any] | None = None
        self.attributes: dict[str, Any] | None = None
        self._former: dict[str, Any] = {}  # the function's own attributes in place of a Swap's, or ABSENT

    def read(self) -> Any:
        """Return the Swap in force, or else the function's code."""
        code, defaults = self.owner.__code__, self.owner.__kwdefaults__
        coming, swap = self._coming, self._swap
        if coming is not None and coming.is_code(code) and defaults is coming.keyword_defaults:
            self._swap = coming  # the write of this Swap may have been interrupted at the very end
            return coming
        return swap if swap is not None and (swap.is_code(code) or self._is_leaving) else code

    def copy_with(self, code: CodeType) -> FunctionType:
        """Return a copy of the function with other code: the same copy for the same code and defaults."""
        if self.copy is None or self.copy.__code__ is not code or not self.has_defaults_of_copy:
            self.copy = copy_with_code(self.owner, code)
        return self.copy

    @property
    def has_defaults_of_copy(self) -> bool:
        """True if the function, without a Swap in force, has the defaults that the last copy got."""
        function, copy = self.owner, self.copy
        if copy is None or copy.__defaults__ is not function.__defaults__:
            return False
        return self.holds_a_swap or copy.__kwdefaults__ is function.__kwdefaults__

    def write(self, value: Any) -> None:
        """Write a Swap, or the original code, into the function.

        A running call keeps its code and defaults. A call that begins meanwhile sees the assignments in order
        (GIL: each is one operation).
        """
        function = self.owner
        if isinstance(value, Swap):
            if self._swap is None and self._coming is None:
                self._keyword_defaults = function.__kwdefaults__
                self.attributes = own = vars(function)
                names = [name for name in value.attributes if name == TRACED or name not in own]
                self._former = {name: own.get(name, ABSENT) for name in names}
            self._coming, former, added = value, self._former, value.attributes
            if vars(function) is self.attributes:
                _exchange(function, AttributesInPlace([name for name in former if former[name] is ABSENT]))
            vars(function).update({name: added[name] for name in former if name in added})
            function.__kwdefaults__ = value.keyword_defaults
            value.put_into(function)
            if self._swap is not None and self._swap is not value:
                self._swap.put_into(None)
            self._swap = value
            lengthen(function)
            return
        self._is_leaving = True  # an interrupted write is repeated: until then the Swap is in force
        if self._swap is not None:
            self._swap.put_into(None)
        function.__code__ = value
        lengthen(function)
        original, current = self.attributes, vars(function)
        if original is not None and type(current) is AttributesInPlace:  # else a dict of other code
            for name in original.keys() - dict.keys(current):  # deleted meanwhile
                del original[name]
            _exchange(function, original)
        for name, former in self._former.items():
            if former is ABSENT:
                vars(function).pop(name, None)
            else:
                vars(function)[name] = former
        function.__kwdefaults__ = self._keyword_defaults
        self._swap = self._coming = self.attributes = None
        self._is_leaving = False

    @property
    def holds_a_swap(self) -> bool:
        """True from the first act of the write of a Swap to the last act of the write of the original code."""
        return self._coming is not None or self._swap is not None or self._is_leaving

    def __str__(self) -> str:
        return f"{self.owner.__module__}:{self.owner.__qualname__}"


@final
class InPlace:
    """A Swap that comes into its function and leaves the function again and again. All calls are on the fast path.

    ``home``: the target's slot, which holds the function. ``swap``: without a layer.
    """

    __slots__ = ("_below", "_names", "_off", "_on", "_references", "_slot", "_swap")

    def __init__(self, slot: FunctionSlot, swap: Swap, home: AttributeSlot) -> None:
        self._slot: Final = slot
        self._swap: Final = swap
        self._below: Final = slot.copy
        self._names: Final[Any] = vars(home.owner)
        self._off: Final = [*swap.link]
        self._on: list[Any] = []
        self._references: Final = self._count()

    def note_link(self) -> None:
        """Note the Swap's present link for the times in force."""
        self._on = [*self._swap.link]
        self._swap.link[:] = self._off

    def get(self, name: str) -> Any:
        """Return the Swap in force, or the function's code; None if home or the Swap is not as before."""
        slot = self._slot
        is_as_before = self._names.get(name) is slot.owner and self.is_over_the_copy and self.has_no_other_holder()
        return slot.read() if is_as_before else None

    @property
    def is_over_the_copy(self) -> bool:
        """True if the Swap calls the original with the defaults that the function has now."""
        return self._below is self._slot.copy and self._slot.has_defaults_of_copy

    def write(self, name: str, value: Any) -> None:
        """Put the Swap into force, or the original code."""
        self._swap.link[:] = self._on if value is self._swap else self._off
        self._slot.write(value)

    def restore_code(self, original: CodeType) -> None:
        """Write the original code, also after an interrupted write, unless foreign code is there."""
        self._swap.link[:] = self._off
        code = self._slot.owner.__code__
        if self._slot.holds_a_swap and (code is original or self._swap.is_code(code)):
            self._slot.write(original)

    def has_no_other_holder(self) -> bool:
        """Return True if no other code holds the link, as a copy of the function or a running call does."""
        return self._count() == self._references

    def _count(self) -> int:
        """Return the reference counts of the link and the defaults, without the function's reference."""
        defaults = self._swap.keyword_defaults
        is_in_function = self._slot.owner.__kwdefaults__ is defaults
        return sys.getrefcount(self._swap.link) + sys.getrefcount(defaults) - is_in_function


_set_attributes: Final = vars(FunctionType)["__dict__"].__set__


def _exchange(function: FunctionType, new: dict[str, Any]) -> None:
    """Give a function another dict with the same attributes.

    No instruction of Python runs between the copy and the exchange: an attribute set by another thread is not lost.
    """
    copy = partial(new.update, dict.items(vars(function)))
    deque(map(call, (copy, partial(_set_attributes, function, new))), maxlen=0)


def leads_to(value: Any, function: FunctionType) -> bool:
    """Return True if a value is a function, in a static or class method too, or keeps the function for calls."""
    value = inner(value)
    return value is function or keeps(value, lambda referent: inner(referent) is function)


def has_cache(value: Any) -> bool:
    """Return True for a ``functools.lru_cache``, and for a decorated function with one between its decorators."""
    return LRU_CACHE in (type(value), *(type(vars(function).get("__wrapped__")) for function in decorated(value)))


def innermost(value: Any) -> Any:
    """Return the Python function inside the decorators of a value, as ``functools.wraps`` leads to it."""
    try:
        unwrapped = unwrap(value)
    except ValueError:  # __wrapped__ leads round in a circle
        return value
    return unwrapped if type(unwrapped) is FunctionType else value
