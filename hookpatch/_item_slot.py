"""An entry of a mapping or list as a slot; the only file that sets or deletes foreign items."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import MutableMapping, MutableSequence
from functools import partial
from threading import RLock
from typing import Any, ClassVar, Final, final
from weakref import WeakValueDictionary

from hookpatch._slot import ABSENT
from hookpatch._target import describe


@final
class ItemSlot:
    """An entry of a mapping or a list."""

    __slots__ = ("_removed", "index", "owner")

    def __init__(self, owner: MutableMapping[Any, Any] | MutableSequence[Any], index: Any) -> None:
        self.owner: Final[Any] = owner
        self.index: Final = index
        self._removed: tuple[_Order, Any] | None = None  # the order of before, and the very key that was there

    @property
    def key(self) -> tuple[Any, ...]:
        """What two slots share when they are the same place."""
        return "item", id(self.owner), self.index

    @property
    def in_class(self) -> None:
        """None: what lies in a mapping or list is never a method."""
        return None

    def read(self) -> Any:
        """Return the value as it is kept, or ABSENT."""
        if isinstance(self.owner, MutableSequence):
            return self.owner[self.index] if self.index < len(self.owner) else ABSENT
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.index, ABSENT)  # one step, past __missing__
        if self.index not in self.owner:  # asked first: the owner may make one
            return ABSENT
        return self._raw("__getitem__")(self.index)

    def inherited(self) -> Any:
        """Return ABSENT: items are not inherited."""
        return ABSENT

    def write(self, value: Any) -> None:
        """Put a value there; a key that was deleted goes back to its position."""
        if self._removed is None or self.index in self.owner:
            self._raw("__setitem__")(self.index, value)
            return
        (order, key), self._removed = self._removed, None
        with order.turn:
            self._raw("__setitem__")(key, value)
            order.move_back(self.owner, key)

    def delete(self) -> None:
        """Make it absent, and note where it was."""
        order = _Order.of(self.owner)
        with order.turn:
            self._removed = order, order.note(self.index)
            self._raw("__delitem__")(self.index)

    def forget(self) -> None:
        """Forget where a deleted key was: one that is put there now is another."""
        self._removed = None

    def _raw(self, method: str) -> Any:
        """Return a method that reaches what is kept: a dict's subclass may give out, and take, something else."""
        kind = next((kind for kind in (OrderedDict, dict) if isinstance(self.owner, kind)), type(self.owner))
        return getattr(kind, method).__get__(self.owner)

    def __str__(self) -> str:
        return f"{describe(self.owner)}[{self.index!r}]"


class _Order:
    """The order of a mapping's keys, those that were removed included. Lives while one of them is away."""

    _known: ClassVar[WeakValueDictionary[int, _Order]] = WeakValueDictionary()

    _lock: ClassVar = RLock()  # to look one up

    def __init__(self, owner: Any) -> None:
        self.turn: Final = RLock()  # of the slots in the mapping: each moves neighbours
        self._owner: Final = owner  # held: its id is the key under which this is known
        self._keys: list[Any] = []

    @classmethod
    def of(cls, owner: Any) -> _Order:
        """Return the order of a mapping, one for all slots in it."""
        with cls._lock:
            known = cls._known.get(id(owner))
            if known is None:
                known = cls._known[id(owner)] = cls(owner)
            return known

    def note(self, index: Any) -> Any:
        """Note all keys that are there now, the later ones behind; return the one that ``index`` is equal to."""
        self._keys += [key for key in list(self._owner) if key not in self._keys]
        return self._keys[self._keys.index(index)]

    def move_back(self, owner: Any, key: Any) -> None:
        """Move a key that was just added behind those that stood before it: a mapping has no other way to insert."""
        before = self._keys[: self._keys.index(key)]
        now = [other for other in list(owner) if other != key]
        at = max((place for place, other in enumerate(now, 1) if other in before), default=0)
        if isinstance(owner, dict) and not isinstance(owner, OrderedDict):
            # One step of the interpreter: no other thread finds a neighbour away, or sets one in between.
            dict.update(owner, zip(now[at:], map(partial(dict.pop, owner), now[at:]), strict=True))
            return
        for other in now[at:]:
            if isinstance(owner, OrderedDict):
                owner.move_to_end(other)
            else:
                owner[other] = owner.pop(other)
