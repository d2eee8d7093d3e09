"""A part of something that takes no assignment: an element of a tuple, the function in a bound method or a partial.

What cannot be changed itself (a tuple) is exchanged where it lies for another one like it; at the end the identical
first one lies there again. A functools.partial is changed inside, by its own __setstate__.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from types import MethodType
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, final
from weakref import WeakValueDictionary

from hookpatch._slot import ABSENT, Slot

_Parts: TypeAlias = tuple[Any, ...]

# What each kind is made of, and how it is made of that: from the one before, since a subclass may keep more.
_KINDS: Final[dict[type, tuple[Callable[[Any], _Parts], Callable[[Any, _Parts], Any], tuple[str, ...]]]] = {
    tuple: (tuple, lambda whole, parts: parts, ()),
    MethodType: (lambda whole: (whole.__func__,), lambda whole, parts: MethodType(parts[0], whole.__self__), ("",)),
    staticmethod: (lambda whole: (whole.__func__,), lambda whole, parts: staticmethod(parts[0]), ("",)),
    classmethod: (lambda whole: (whole.__func__,), lambda whole, parts: classmethod(parts[0]), ("",)),
    property: (
        lambda whole: (whole.fget, whole.fset, whole.fdel),
        lambda whole, parts: property(parts[0], parts[1], parts[2], whole.__doc__),
        (".fget", ".fset", ".fdel"),
    ),
}


@final
class _Whole:
    """What lay in a place before the first of its parts was exchanged. Lives while one of them is."""

    _known: ClassVar[WeakValueDictionary[tuple[Any, ...], _Whole]] = WeakValueDictionary()

    _lock: ClassVar = RLock()  # to look one up

    def __init__(self, value: Any) -> None:
        self.turn: Final = RLock()  # of its parts: each puts the others together anew
        self.value: Final = value

    @classmethod
    def in_place(cls, place: Slot) -> _Whole:
        """Return the one of a place, made now if there is none."""
        with cls._lock:
            known = cls._known.get(place.key)
            if known is None:
                known = cls._known[place.key] = cls(place.read())
            return known


@final
class PartSlot:
    """A part of a tuple, bound method, static or class method or property that lies in another slot."""

    __slots__ = ("_whole", "at", "owner")

    def __init__(self, place: Slot, at: int) -> None:
        """Take a part.

        Args:
            place: where the whole lies.
            at: the number of the part, as ``parts`` gives it.
        """
        self.owner: Final = place
        self.at: Final = at
        self._whole: _Whole | None = None

    @staticmethod
    def parts(whole: Any, thing: object) -> list[int]:
        """Return the numbers of the parts that are an object, none for what has no parts."""
        if type(whole) not in _KINDS:
            return []
        return [at for at, part in enumerate(_KINDS[type(whole)][0](whole)) if part is thing]

    @staticmethod
    def words(whole: Any, at: int) -> str:
        """Return how a part is written behind what it is a part of."""
        names = _KINDS[type(whole)][2]
        return names[at] if names else f"[{at}]"

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "part", self.at, *self.owner.key

    @property
    def in_class(self) -> None:
        """None: whatever binds it is the whole."""
        return None

    def read(self) -> Any:
        """Return the part, or ABSENT when something else lies there by now."""
        whole = self.owner.read()
        parts = _KINDS[type(whole)][0](whole) if type(whole) in _KINDS else ()
        return parts[self.at] if self.at < len(parts) else ABSENT

    def inherited(self) -> Any:
        """Return ABSENT: parts are not inherited."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Put another whole into the place; the first one as soon as all its parts are those of before."""
        first = self._whole = self._whole or _Whole.in_place(self.owner)
        with first.turn:
            whole = self.owner.read()
            apart, together, _ = _KINDS[type(whole)]
            parts = apart(whole)
            parts = (*parts[: self.at], value, *parts[self.at + 1 :])
            before = apart(first.value)
            if len(parts) == len(before) and all(map(_is, parts, before)):
                self.owner.write(first.value)
                self._whole = None
            else:
                self.owner.write(together(whole, parts))

    def delete(self) -> None:
        """Refuse: the others would move."""
        raise TypeError(f"{self} cannot be absent")

    def __str__(self) -> str:
        return f"{self.owner}[{self.at}]"


@final
class PartialSlot:
    """The function of a functools.partial, or all the arguments that it holds by place."""

    __slots__ = ("at", "owner")

    def __init__(self, owner: partial[Any], at: Literal["func", "args"]) -> None:
        self.owner: Final = owner
        self.at: Final = at

    @staticmethod
    def parts(owner: partial[Any], thing: object) -> list[Literal["func", "args"]]:
        """Return the parts that are an object."""
        parts: tuple[Literal["func"], Literal["args"]] = ("func", "args")
        return [part for part in parts if getattr(owner, part) is thing]

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "partial", id(self.owner), self.at

    @property
    def in_class(self) -> None:
        """None: a partial binds nothing."""
        return None

    def read(self) -> Any:
        """Return the part."""
        return getattr(self.owner, self.at)

    def inherited(self) -> Any:
        """Return ABSENT: parts are not inherited."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Change it inside: it stays the same object."""
        _, _, (function, arguments, keywords, attributes) = cast(tuple[Any, ...], self.owner.__reduce__())
        state = (value, arguments) if self.at == "func" else (function, value)
        self.owner.__setstate__((*state, keywords, attributes))  # type: ignore[attr-defined]  # typeshed has none

    def delete(self) -> None:
        """Refuse: there is no partial without."""
        raise TypeError(f"{self} cannot be absent")

    def __str__(self) -> str:
        return f"{self.owner!r}.{self.at}"


def _is(one: object, other: object) -> bool:
    return one is other
