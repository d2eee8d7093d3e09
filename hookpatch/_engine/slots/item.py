"""An entry of a mapping or list as a slot. No other file sets or deletes foreign items."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import MutableMapping, MutableSequence
from functools import partial
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import Turn, is_interrupt
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.slot import ABSENT, OwnValueSlot, Shared


@final
class ItemSlot(OwnValueSlot):
    """An entry of a mapping or a list."""

    __slots__ = ("_is_gone", "_is_returning", "_removed", "index", "key", "owner")

    def __init__(self, owner: MutableMapping[Any, Any] | MutableSequence[Any], index: Any) -> None:
        self.owner: Final[Any] = owner
        self.index: Final = index
        self.key: Final[tuple[Any, ...]] = ("item", id(owner), index)
        self._removed: tuple[_Order, Any] | None = None  # the former order, and the identical key of the entry
        self._is_returning = False
        self._is_gone = False  # an added entry of a list was deleted: the place has the next entry

    def read(self) -> Any:
        """Return the stored value, or ABSENT."""
        if self._is_returning or self._is_gone:
            return ABSENT
        if isinstance(self.owner, MutableSequence):
            return self.owner[self.index] if self.index < len(self.owner) else ABSENT
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.index, ABSENT)  # one step, without __missing__
        if self.index not in self.owner:  # first, since the owner may make an entry when read
            return ABSENT
        return self._raw("__getitem__")(self.index)

    def write(self, value: Any) -> None:
        """Set the entry; a deleted key returns to the former position."""
        if isinstance(self.owner, MutableSequence) and self.index == len(self.owner):
            self.owner.append(value)
            self._is_gone = False
            return
        if self._removed is None or (self.index in self.owner and not self._is_returning):
            self._raw("__setitem__")(self.index, value)
            return
        order, key = self._removed
        with order.lock:
            self._is_returning = True  # an interrupted write is repeated: until then the entry reads as deleted
            try:
                self._raw("__setitem__")(key, value)
            except Exception as error:  # of the owner, who may have stored the value
                self._is_returning = is_interrupt(error)
                raise
            order.move_back(key)
            self._removed, self._is_returning = None, False

    def delete(self) -> None:
        """Delete the entry, and note its position in a mapping."""
        if isinstance(self.owner, MutableSequence):  # an added entry
            del self.owner[self.index]
            self._is_gone = True
            return
        order = _ORDERS.get(id(self.owner), partial(_Order, self.owner))
        with order.lock:
            self._removed = order, order.note(self.index)
            self._raw("__delitem__")(self.index)

    def forget(self) -> None:
        """Forget the position of a deleted key: a new entry of equal key is a different entry."""
        self._removed = None

    def _raw(self, method: str) -> Any:
        """Return a method of the stored data: a dict's subclass may read and write other values."""
        kind = next((kind for kind in (OrderedDict, dict) if isinstance(self.owner, kind)), type(self.owner))
        return getattr(kind, method).__get__(self.owner)

    def __str__(self) -> str:
        return f"{describe(self.owner)}[{self.index!r}]"


class _Order:
    """The order of a mapping's keys, including deleted keys. Lives while a key is deleted."""

    def __init__(self, owner: Any) -> None:
        self.lock: Final = Turn()  # shared by the slots of a mapping: each write moves neighbours
        self._owner: Final = owner  # a strong reference: _ORDERS finds this order by the owner's id
        self._keys: list[Any] = []

    def note(self, index: Any) -> Any:
        """Append all new keys of the mapping; return the key equal to ``index``."""
        self._keys += [key for key in list(self._owner) if key not in self._keys]
        return self._keys[self._keys.index(index)]

    def move_back(self, key: Any) -> None:
        """Move a newly added key behind its former predecessors: a mapping has no other way to insert."""
        owner = self._owner
        before = self._keys[: self._keys.index(key)]
        keys = [other_key for other_key in list(owner) if other_key != key]
        position = max((count for count, other_key in enumerate(keys, 1) if other_key in before), default=0)
        if isinstance(owner, dict) and not isinstance(owner, OrderedDict):
            # GIL: one step of the interpreter, so no other thread misses a neighbour, or sets a key in between.
            dict.update(owner, zip(keys[position:], map(partial(dict.pop, owner), keys[position:]), strict=True))
            return
        for other_key in keys[position:]:
            if isinstance(owner, OrderedDict):
                owner.move_to_end(other_key)
            else:
                owner[other_key] = owner.pop(other_key)


_ORDERS: Final[Shared[_Order]] = Shared()  # by the id of the mapping
