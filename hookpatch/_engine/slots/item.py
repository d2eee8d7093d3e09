"""An entry of a mapping or list as a slot. No other file sets or deletes foreign items."""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import MutableMapping, MutableSequence
from functools import partial
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import Turn, is_interrupt
from hookpatch._engine.patch.describe import PLAIN, describe
from hookpatch._engine.slots.slot import ABSENT, OwnValueSlot, Shared


@final
class ItemSlot(OwnValueSlot):
    """An entry of a mapping or a list."""

    __slots__ = ("_further", "_is_added", "_is_gone", "_is_returning", "_removed", "index", "key", "owner")

    def __init__(self, owner: MutableMapping[Any, Any] | MutableSequence[Any], index: Any) -> None:
        is_chain = isinstance(owner, ChainMap) and type(owner).__setitem__ is ChainMap.__setitem__
        self._further: Final[Any] = owner if is_chain else None  # a chain stores in its first map
        self.owner: Final[Any] = owner.maps[0] if isinstance(owner, ChainMap) and is_chain else owner
        self.index: Final = index
        self.key: Final[tuple[Any, ...]] = ("item", id(self.owner), index)
        self._is_added = False
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
        return _raw(self.owner, "__getitem__")(self.index)

    def inherited(self) -> Any:
        """Return the value in a further map of a chain, or ABSENT."""
        further = () if self._further is None else self._further.maps[1:]
        return next((mapping[self.index] for mapping in further if self.index in mapping), ABSENT)

    def write(self, value: Any) -> None:
        """Set the entry; a deleted key returns to the former position."""
        if isinstance(self.owner, MutableSequence) and self.index == len(self.owner):
            self.owner.append(value)
            self._is_gone = False
            return
        is_there = _raw(self.owner, "__contains__")(self.index)
        if self._removed is None or (is_there and not self._is_returning):
            self._is_added = self._is_added or not is_there
            _raw(self.owner, "__setitem__")(self.index, value)
            return
        order, key = self._removed
        with order.lock:
            self._is_returning = True  # an interrupted write is repeated: until then the entry reads as deleted
            try:
                _raw(self.owner, "__setitem__")(key, value)
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
            try:
                self._removed = order, order.note(self.index)
            except Exception as error:
                if is_interrupt(error) or not self._is_added:
                    raise  # else the entry does not return after the end of the patches
            _raw(self.owner, "__delitem__")(self.index)

    def forget(self) -> None:
        """Forget the position of a deleted key: a new entry of equal key is a different entry."""
        self._removed = None

    def __str__(self) -> str:
        return f"{describe(self.owner)}[{self.index!r}]"


def _raw(owner: Any, method: str) -> Any:
    """Return a method of the stored data: a dict's subclass may read and write other values."""
    kind = next((kind for kind in (OrderedDict, dict) if isinstance(owner, kind)), type(owner))
    return getattr(kind, method).__get__(owner)


class _Order:
    """The order of a mapping's keys, including deleted keys. Lives while a key is deleted.

    Keys are compared without their ``__eq__``, except keys of the same hash as the deleted key.
    """

    def __init__(self, owner: Any) -> None:
        self.lock: Final = Turn()  # shared by the slots of a mapping: each write moves neighbours
        self._owner: Final = owner  # a strong reference: _ORDERS finds this order by the owner's id
        self._keys: dict[Any, Any] = {}  # by identity

    def note(self, index: Any) -> Any:
        """Append all new keys of the mapping; return the key equal to ``index``.

        Raises:
            LookupError: a key cannot be looked up, and could not be moved later.
        """
        keys = [*_raw(self._owner, "__iter__")()]
        key = next((key for key in keys if key is index), ABSENT)
        if key is ABSENT:
            key = next(key for key in keys if _hash_of(key) == hash(index) and key == index)
        is_behind = False
        for other_key in keys:
            if other_key is not key and not self._can_be_found(other_key, key, is_behind):
                raise LookupError(f"the key {describe(other_key)} cannot be looked up, nor moved back")
            is_behind = is_behind or other_key is key
        self._keys |= {identity: key for key in keys if (identity := _identity(key)) not in self._keys}
        return key

    def _can_be_found(self, key: Any, deleted: Any, is_behind: bool) -> bool:
        """Return False if the mapping cannot move a key, or takes the key for the deleted one."""
        try:
            if is_behind and not _raw(self._owner, "__contains__")(key):
                return False
            return not (_hash_of(key) == hash(deleted) and bool(key == deleted))
        except Exception as error:
            if is_interrupt(error):
                raise
            return False

    def move_back(self, key: Any) -> None:
        """Move a newly added key behind its former predecessors: a mapping has no other way to insert."""
        owner, own, order = self._owner, _identity(key), [*self._keys]
        before = {*order[: order.index(own)]}
        keys = [other_key for other_key in _raw(self._owner, "__iter__")() if _identity(other_key) != own]
        position = max((count for count, other_key in enumerate(keys, 1) if _identity(other_key) in before), default=0)
        if isinstance(owner, dict) and not isinstance(owner, OrderedDict):
            # GIL: one step of the interpreter, so no other thread misses a neighbour, or sets a key in between.
            dict.update(owner, zip(keys[position:], map(partial(dict.pop, owner), keys[position:]), strict=True))
            return
        for other_key in keys[position:]:
            if isinstance(owner, OrderedDict):
                owner.move_to_end(other_key)
            else:
                owner[other_key] = owner.pop(other_key)


def _hash_of(key: Any) -> int | None:
    """Return the hash of a key; None if the key has none by now."""
    try:
        return hash(key)
    except Exception as error:
        if is_interrupt(error):
            raise
        return None


def _identity(key: Any) -> Any:
    """Return a value that is equal for the same key: a mapping such as os.environ makes its keys anew."""
    if type(key) is tuple:
        return tuple(map(_identity, key))
    return (type(key), key) if type(key) in PLAIN else id(key)


_ORDERS: Final[Shared[_Order]] = Shared()  # by the id of the mapping
