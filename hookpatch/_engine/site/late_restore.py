"""Restore a slot late: when a foreign value covered our wrapper at the end of our session.

The foreign code saved our wrapper as "the original" and will write our wrapper back. The wrapper then only passes
calls through, but the slot does not hold the original. We watch the foreign value with a weak reference, and look
whenever a session opens, closes or reports. As soon as the slot holds our wrapper again, we write the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, final
from weakref import ReferenceType, ref

from hookpatch._engine.site.stand_in import keep_alive
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import ABSENT, Slot, along_mro, inner, is_same_value, write_or_delete

# Values of these types are shared all over a program: an equal value in the slot may come from any code.
_PLAIN: Final = (str, bytes, int, float, complex, tuple, frozenset, type(None), type(ABSENT))


def is_recognisable(value: object) -> bool:
    """Return True if a value in a slot can be recognised as the object that was written."""
    return not issubclass(type(value), _PLAIN)  # not isinstance: a proxy of a number passes isinstance


@final
class LateRestore:
    """A slot to restore as soon as it holds one of our wrappers again.

    Only our dead wrapper keeps a late restore alive. A global list would hold the slot's owner, the owner holds the
    foreign value, and the foreign value holds our wrapper: a cycle that is never collected.
    """

    def __init__(
        self, slot: Slot, ours: Sequence[Callable[[], object]], original: object, on_restored: Callable[[], None]
    ) -> None:
        """Note our last values in a slot, each ``weakly``, and the original."""
        self._slot: Callable[[], Slot | None] = lambda: slot
        self._original: Final = original
        self._on_restored: Final = on_restored
        self._ours: Final = tuple(ours)
        self._foreign: Callable[[], object] | None = None

    @property
    def slot(self) -> Slot | None:
        """The slot, None once the owner is gone."""
        slot = self._slot()
        return None if slot is None or slot.owner is None else slot

    @property
    def is_covered(self) -> bool:
        """True when the slot does not hold the original."""
        slot = self.slot
        return slot is not None and not is_same_value(slot.read(), self._original)

    def try_to_restore(self) -> bool:
        """Restore the slot if the slot holds one of our wrappers; return True at the end of the wait."""
        slot, ours = self.slot, self._living()
        if slot is None or not ours:
            return True  # no code holds our wrapper, and no code can write the wrapper back
        value = slot.read()
        if all(value is not wrapper for wrapper in ours):
            foreign, late_restore = inner(value), ref(self)
            is_watched = is_recognisable(foreign) and _is_plainly_set(slot)
            self._foreign = weakly(foreign, lambda _: _on_death(late_restore)) if is_watched else None
            return False
        write_or_delete(slot, self._original)
        self._on_restored()
        return True

    def wait(self) -> None:
        """Add this late restore to ``late_restores``, and let our wrappers keep this object alive."""
        waiting.add(ref(self, waiting.discard))
        outcomes = [keep_alive(value, self) for value in self._living()]
        if all(outcomes):
            return
        # A global set keeps this late restore alive: hold the slot's owner by a weak reference, if possible.
        slot = self.slot
        if isinstance(slot, AttributeSlot) and _is_plainly_set(slot):
            with suppress(TypeError):
                weak, name = ref(slot.owner), slot.name
                self._slot = lambda: None if (owner := weak()) is None else AttributeSlot(owner, name)
        _unborne.add(self)

    def forget(self) -> None:
        """Stop waiting."""
        waiting.discard(ref(self))
        _unborne.discard(self)

    def _living(self) -> list[object]:
        """Return our living values."""
        return [value for value in (weak() for weak in self._ours) if value is not None]


# Called when a foreign value has died, in any thread.
on_foreign_death: Final[list[Callable[[LateRestore], None]]] = []
waiting: Final[set[ReferenceType[LateRestore]]] = set()
_unborne: Final[set[LateRestore]] = set()  # late restores that no wrapper of ours can keep alive


def late_restores() -> list[LateRestore]:
    """Return the late restores waiting for the end of a foreign value."""
    return [late for late in (weak() for weak in waiting.copy()) if late is not None] if waiting else []


def _on_death(weak: Callable[[], LateRestore | None]) -> None:
    if (late_restore := weak()) is not None:
        for look_again in on_foreign_death:
            look_again(late_restore)


_SETTERS: Final = {vars(kind)["__setattr__"] for kind in (object, type)}
_ITEM_SETTERS: Final = (vars(dict)["__setitem__"], vars(list)["__setitem__"])


def _is_plainly_set(slot: Slot) -> bool:
    """Return True if a value may be exchanged during an assignment to the owner: an OrderedDict would be corrupted."""
    if isinstance(slot, ItemSlot):
        return along_mro(type(slot.owner), "__setitem__") in _ITEM_SETTERS
    if isinstance(slot, AttributeSlot):
        return isinstance(slot.owner, ModuleType) or along_mro(type(slot.owner), "__setattr__") in _SETTERS
    return False


def weakly(value: object, died: Callable[[Any], None] | None = None) -> Callable[[], object]:
    """Return a weak reference; for an object without weak references, such as a static method, a strong reference."""
    try:
        return ref(value, died)
    except TypeError:
        return lambda: value
