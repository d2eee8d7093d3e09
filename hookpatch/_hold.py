"""What a slot holds: its original, what we have put there, or something of somebody else's that lies over ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._beneath import beneath_proxies
from hookpatch._function_slot import FunctionSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, is_recognisable, weakly
from hookpatch._slot import ABSENT, Slot, put, same
from hookpatch._standing import is_ours
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "unlinked", "dormant", "displaced"]

_LAST: Final = 32  # of what was put there, as many are known again


@final
class Hold:
    """What a slot holds, as far as we know. Lives as long as its site.

    Attributes:
        slot: the place.
        original: the owner's own value before any layer, or ABSENT.
        base: what the innermost layer lies over: the original, or what the owner has from elsewhere.
        value: what we have put there, or the original.
        is_covered: True while something of somebody else's keeps what should be there from being put.
        may_come_back: True when somebody may have saved what we had put there, and may put it back.
    """

    __slots__ = ("_puts", "base", "is_covered", "may_come_back", "original", "slot", "value")

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        # What take_ground finds; other threads may look before that.
        self.original: Any = ABSENT
        self.base: Any = ABSENT
        self.value: Any = ABSENT
        self._puts: tuple[Callable[[], object], ...] = ()

    def take_ground(self) -> None:
        """Take what the slot holds now as the original."""
        if isinstance(self.slot, ItemSlot):
            self.slot.forget()
        held: Any = self.slot.read()
        self.original = self.base = self.value = held
        if held is ABSENT and not isinstance(self.slot.owner, ModuleType):
            self.base = self.slot.inherited()  # now: later on some owners would give what we put there
        if isinstance(self.slot, FunctionSlot):
            self.base = self.slot.copy_with(held)
        self.is_covered = False
        # Somebody put there what belongs there anyway: he may have saved ours, and put it back whenever he likes.
        self.may_come_back = False
        # What we have put there, the last few: whoever wrapped one of them may put it back.
        self._puts = ()

    def look_up_base(self) -> None:
        """Look up what a module hands out lazily: only for what is to lie over it, since that may wake something."""
        if self.base is ABSENT and isinstance(self.slot.owner, ModuleType):
            self.base = self.slot.inherited()

    def put(self, value: Any, layers: Sequence[Layer], adding: bool) -> None:
        """Put a value there, unless something of somebody else's lies there: that is never written over.

        Args:
            value: what belongs there.
            layers: the layers because of which it does, none for the original.
            adding: True when one of them is new, and would not show beneath what is somebody else's.

        Raises:
            TargetRefused: the slot does not keep it, or a new layer would not show.
            Exception: what the owner raised.
        """
        there = self.slot.read()
        if there is value:
            self.may_come_back = self.may_come_back or not same(self.value, value)
            self.value = value
            return
        place = self.slot if self._is_ours(there) else beneath_proxies(there, self._is_ours)
        if place is None or (value is ABSENT and place is not self.slot):
            if adding and value is not self.value:
                problem = (
                    f"{self.slot} holds what somebody else put over an earlier patch, and a new one would not show"
                )
                raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; take theirs off first")
            self.is_covered = True
            return
        is_there = place is not self.slot and place.read() is value  # beneath their proxy: this is not the first look
        if not is_there:
            put(place, value)
        if layers and not same(place.read(), value):
            if self.value is not ABSENT:
                put(place, self.value)
            else:
                with suppress(AttributeError, LookupError):  # it may have kept it elsewhere, as torch modules do
                    put(place, ABSENT, unseen=True)
            problem = f"{self.slot} does not keep what is put there"
            raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; patch what it is made from")
        self.value = value
        self.is_covered = place is not self.slot
        if layers and not is_there and is_recognisable(value):
            self._puts = (*self._puts, weakly(value))[-_LAST:]

    @property
    def is_there(self) -> bool:
        """True when what was put there, or the original, lies there."""
        return same(self.slot.read(), self.value)

    @property
    def is_ours(self) -> bool:
        """True when what lies there is what was put there for layers."""
        return self.value is not self.original and self.slot.read() is self.value

    @property
    def was_set(self) -> bool:
        """True when what lies there is neither what was put there nor the original."""
        now = self.slot.read()
        return not same(now, self.value) and same(now, self.slot.read())

    @property
    def stood(self) -> list[Any]:
        """What stands in the slot, stood there lately, or is inherited there: as far as we know, as it lay there."""
        lately = [weak() for weak in self._puts]
        return [value for value in (self.original, self.base, *lately) if value is not None]

    def _is_ours(self, value: Any) -> bool:
        """Tell whether a value is the original or one that we have put there."""
        if same(value, self.value) or any(weak() is value for weak in self._puts if value is not None):
            return True
        # Or what stands elsewhere for the same thing, copied from there when a module was reloaded.
        over = getattr(value, "__wrapped__", ABSENT) if is_ours(value) else ABSENT
        return over is not ABSENT and over is self.original

    def end(self) -> Ending:
        """Return what became of the slot, now that the last layer has gone."""
        there = self.slot.read()
        self.value = self.original
        if same(there, self.original):
            return "restored"
        if beneath_proxies(there, lambda value: value is self.original) is not None:
            return "unlinked"
        return "displaced" if there is ABSENT else "dormant"

    def give_back_later(self, given_back: Callable[[], None]) -> None:
        """Give the slot back when theirs has gone and ours comes to light again, and tell of it."""
        leftover = Leftover(self.slot, self._puts, self.original, given_back)
        if not leftover.look():
            leftover.wait()
