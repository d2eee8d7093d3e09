"""What is left of a patch at whose end somebody else's value lay over it: the slot is given back when theirs has gone.

They saved what stood there, and it was ours; so they will put ours back, which by then is dead. Nothing tells of that
but the death of their value, and otherwise the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, final
from weakref import ReferenceType, ref

from hookpatch._attribute_slot import AttributeSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._slot import ABSENT, Slot, along_mro, inner, put, same
from hookpatch._standing import bear

# A value of these may be anybody's: that it stands there again says nothing.
_PLAIN: Final = (str, bytes, int, float, complex, tuple, frozenset, type(None), type(ABSENT))


def is_recognisable(value: object) -> bool:
    """Tell whether a value that stands in a slot can be known as the very one that was put there."""
    return not issubclass(type(value), _PLAIN)  # not isinstance, which a proxy of a number passes


@final
class Leftover:
    """A slot that is to hold its original again as soon as ours comes to light.

    Lives as long as ours, which bears it where it can: kept by anything else it would keep the slot's owner, which has
    theirs, which has ours, and none of them would ever go.

    Attributes:
        slot: the place, None once its owner is gone.
    """

    def __init__(
        self,
        slot: Slot,
        ours: Sequence[Callable[[], object]],
        original: object,
        given_back: Callable[[], None],
    ) -> None:
        """Take note.

        Args:
            slot: the place.
            ours: what we had put there at one time or another, each ``weakly``.
            original: what is to stand there, or ABSENT.
            given_back: told when it stands there again.
        """
        self._slot: Callable[[], Slot | None] = lambda: slot
        self._original: Final = original
        self._given_back: Final = given_back
        self._ours: Final = tuple(ours)
        self._theirs: Callable[[], object] | None = None

    @property
    def slot(self) -> Slot | None:
        """The place."""
        return self._slot()

    def is_at(self, slot: Slot) -> bool:
        """Tell whether it waits for this slot."""
        here = self.slot
        return here is not None and here.key == slot.key

    @property
    def is_covered(self) -> bool:
        """True when something else stands there than what was there before."""
        slot = self.slot
        return slot is not None and not same(slot.read(), self._original)

    def hold_owner_weakly(self) -> None:
        """Do not keep the slot's owner alive, where that can be: ours, which may live for ever, does not bear this."""
        slot = self.slot
        if isinstance(slot, AttributeSlot) and _is_plainly_set(slot):
            with suppress(TypeError):
                owner, name = ref(slot.owner), slot.name
                self._slot = lambda: None if (there := owner()) is None else AttributeSlot(there, name)

    def look(self) -> bool:
        """Give the slot back if it holds ours; return True when there is nothing left to wait for."""
        slot, ours = self.slot, [one for one in (weak() for weak in self._ours) if one is not None]
        if slot is None or not ours:
            return True  # nobody has it, so nobody can put it there
        there = slot.read()
        if all(there is not one for one in ours):
            me = ref(self)
            theirs = inner(there)
            is_seen = is_recognisable(theirs) and _is_plainly_set(slot)
            self._theirs = weakly(theirs, lambda _: _stir(me)) if is_seen else None
            return False
        put(slot, self._original)
        self._given_back()
        return True

    def stir(self) -> None:
        """Have somebody look: theirs has gone."""
        for look_again in on_stir:
            look_again(self)

    def wait(self) -> None:
        """Be borne by ours from now on, and be found by ``leftovers``."""
        _waiting.add(ref(self, _waiting.discard))
        ours = [value for value in (weak() for weak in self._ours) if value is not None]
        borne = [bear(value, self) for value in ours]
        if not all(borne):
            self.hold_owner_weakly()
            _unborne.add(self)

    def forget(self) -> None:
        """Wait no longer."""
        _waiting.discard(ref(self))
        _unborne.discard(self)


# Who looks when a look may be worth it: told from anywhere, in any thread.
on_stir: Final[list[Callable[[Leftover], None]]] = []
_waiting: Final[set[ReferenceType[Leftover]]] = set()
_unborne: Final[set[Leftover]] = set()  # those that what we had put there cannot bear


def leftovers() -> list[Leftover]:
    """Return what waits for somebody else's value to go."""
    return [one for one in (weak() for weak in _waiting.copy()) if one is not None] if _waiting else []


def _stir(leftover: Callable[[], Leftover | None]) -> None:
    if (still_there := leftover()) is not None:
        still_there.stir()


_SETTERS: Final = {vars(kind)["__setattr__"] for kind in (object, type)}
_ITEM_SETTERS: Final = (vars(dict)["__setitem__"], vars(list)["__setitem__"])


def _is_plainly_set(slot: Slot) -> bool:
    """Tell whether a value may be exchanged while its owner is being set: an OrderedDict, for one, would be spoilt."""
    if isinstance(slot, ItemSlot):
        return along_mro(type(slot.owner), "__setitem__") in _ITEM_SETTERS
    if isinstance(slot, AttributeSlot):
        return isinstance(slot.owner, ModuleType) or along_mro(type(slot.owner), "__setattr__") in _SETTERS
    return False


def weakly(value: object, died: Callable[[Any], None] | None = None) -> Callable[[], object]:
    """Return a weak reference; a strong one to what cannot have one, such as a static method."""
    try:
        return ref(value, died)
    except TypeError:
        return lambda: value
