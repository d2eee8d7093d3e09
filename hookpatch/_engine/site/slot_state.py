"""The state of a slot: its original, our value, and whether a foreign value covers our value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.beneath import absent
from hookpatch._engine.calls.kept import keeps
from hookpatch._engine.calls.trampoline import beneath_link
from hookpatch._engine.site.late_restore import LateRestore, is_recognisable, weakly
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.stand_in import is_our_wrapper
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import beneath_proxies
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, is_same_value, write_or_delete
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "unlinked", "dormant", "displaced"]

_LAST: Final = 32  # the number of our last values that are recognised later


@final
@dataclass(slots=True, eq=False)
class Former:
    """Our value that was in a slot, and its original. No tuple: a search for holders would follow it."""

    value: Any
    original: Any


@final
class SlotState:
    """The state of a slot, as of our last look. Lives as long as its site.

    Attributes:
        base: the value under the innermost layer: the original, or the value that the owner inherits.
        value: our value, or the original without layers.
        is_covered: True while a foreign value keeps us from writing our value.
        may_come_back: True when foreign code may have saved our value and may write the saved value later.
        written: weak references to our last values.
        nothing: the function under a wrapper that adds a name.
        wanted: the value for the slot; other than ``value`` if a foreign value kept us from the last write.
        writing: the value of a write that was interrupted.
    """

    __slots__ = (
        "_nothing",
        "base",
        "is_covered",
        "may_come_back",
        "original",
        "slot",
        "value",
        "wanted",
        "writing",
        "written",
    )

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        # Another thread may read these values before read_original has run.
        self.original: Any = ABSENT
        self.base: Any = ABSENT
        self.value: Any = ABSENT
        self.wanted: Any = ABSENT
        self.written: tuple[Callable[[], object], ...] = ()
        self.writing: tuple[Any] | None = None
        self._nothing: Any = None

    def read_original(self) -> None:
        """Read the original from the slot."""
        if isinstance(self.slot, ItemSlot):
            self.slot.forget()
        original: Any = self.slot.read()
        self.original = self.base = original
        if original is ABSENT and not isinstance(self.slot.owner, ModuleType):
            self.base = self.slot.inherited()  # read now: after our write some owners return our value here
        if isinstance(self.slot, FunctionSlot):
            self.base = self.slot.copy_with(original)
        self.writing = None
        self.is_covered = False
        self.may_come_back = False
        self.written = ()
        self.value = original  # last: an interrupted read is done again, since the state is not intact

    @property
    def nothing(self) -> Any:
        """The function under a wrapper that adds a name, the same each time."""
        if self._nothing is None:
            self._nothing = _nothing_at(self.slot)
        return self._nothing

    def look_up_base(self) -> None:
        """Read the lazy attribute of a module: only for a layer over the attribute, since reading may run an import."""
        if self.base is ABSENT and isinstance(self.slot.owner, ModuleType):
            self.base = self.slot.inherited()

    def write(self, value: Any, layers: Sequence[Layer], adding: bool) -> None:
        """Write the value for these layers, or the original without layers. A foreign value is never overwritten.

        Raises:
            TargetRefused: the slot does not keep the value, or an added layer under a foreign value has no effect.
            Exception: raised by the owner.
        """
        current = self.slot.read()
        if current is value:
            # Foreign code has written this value. The same code may have saved our last value, and write that later.
            is_ours = is_same_value(self.value, value) or (self.writing is not None and self.writing[0] is value)
            self.may_come_back = self.may_come_back or not is_ours
            self.value, self.writing = value, None
            return
        place = self.slot if self._is_known_value(current) else beneath_proxies(current, self._is_known_value)
        if place is None or (value is ABSENT and place is not self.slot):
            if adding and not (value is self.value and keeps(current, lambda kept: inner(kept) is inner(value))):
                problem = (
                    f"{self.slot} was replaced by other code after hookpatch had patched the slot; a new patch under "
                    "the replacement would"
                )
                remedy = "have no effect. Undo the replacement first, or open the session before"
                raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem} {remedy}")
            self.is_covered = True
            return
        is_written = place is not self.slot and place.read() is value  # inside a foreign proxy, by an earlier write
        if not is_written:
            self.writing = (value,)
            if layers and is_recognisable(value):
                self.written = (*self.written, weakly(value))[-_LAST:]
            try:
                write_or_delete(place, value)
                is_kept = not layers or is_same_value(place.read(), value)
            except Exception as error:
                if layers and not is_interrupt(error):
                    self._take_back(place)
                raise
        if not (is_written or is_kept):
            if self.value is not ABSENT:
                write_or_delete(place, self.value)
            else:
                with suppress(AttributeError, LookupError):  # the owner may keep the value elsewhere: torch modules do
                    write_or_delete(place, ABSENT, unseen=True)
            problem = f"{self.slot} does not keep a new value"
            raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; patch the source of the value")
        self.value, self.writing = value, None
        self.is_covered = place is not self.slot

    def _take_back(self, place: Slot) -> None:
        """Restore the last value after an error of the owner, who may have stored the new value before the error."""
        self.writing = None
        try:
            if not self._is_back(place):
                write_or_delete(place, self.value, unseen=True)
        except Exception as error:
            if is_interrupt(error):
                raise  # the first error is of more use than a second error of the same owner

    def _is_back(self, place: Slot) -> bool:
        """Return True if a slot holds the last value; False if the owner raises, whatever the slot holds."""
        try:
            return is_same_value(place.read(), self.value)
        except Exception as error:
            if is_interrupt(error):
                raise
            return False

    @property
    def is_intact(self) -> bool:
        """True when the slot holds our value, or the original without layers."""
        return is_same_value(self.slot.read(), self.value)

    @property
    def holds_our_value(self) -> bool:
        """True when the slot holds our value."""
        return self.value is not self.original and self.slot.read() is self.value

    @property
    def is_foreign(self) -> bool:
        """True when the slot holds a foreign value."""
        value = self.slot.read()
        return not is_same_value(value, self.value) and is_same_value(value, self.slot.read())

    def overwritten_by(self, is_enough: Callable[[Any], bool]) -> tuple[Slot, Any] | None:
        """Return the slot and the foreign value in it that does not lead to our value; None if our value is in force.

        A former value of ours in the hands of foreign code leads to our value only if ``is_enough`` returns True.
        Takes no lock: a report may be asked for in the midst of a change.
        """
        value = self.slot.read()
        writing = self.writing  # read once: another thread may change the attribute
        if (
            is_same_value(value, self.value)
            or (writing is not None and is_same_value(value, writing[0]))
            or self._is_known_value(value)
        ):
            return None
        ours = inner(self.wanted)
        ours = ours if is_recognisable(ours) else ABSENT  # foreign code may hold an equal value by chance
        if beneath_proxies(value, self._is_known_value) is not None or keeps(
            value, lambda referent: inner(referent) is ours or is_enough(referent)
        ):
            return None
        return (self.slot, value) if is_same_value(value, self.slot.read()) else None

    @property
    def known_values(self) -> list[Any]:
        """The original, the inherited value, and our last values in the slot."""
        written = [weak() for weak in self.written]
        return [value for value in (self.original, self.base, *written) if value is not None]

    def _is_known_value(self, value: Any) -> bool:
        """Return True if a value is the original, our value, or one of our last values."""
        if is_same_value(value, self.value) or any(weak() is value for weak in self.written if value is not None):
            return True
        # Or a wrapper of ours for the same original in another slot, copied from there by a reload.
        # A Python function of another slot is no copy: many slots may hold the function for reasons of their own.
        if not is_our_wrapper(value) or type(self.original) is FunctionType:
            return False
        wrapped = beneath_link(value) if type(value) is FunctionType else getattr(value, "__wrapped__", ABSENT)
        return wrapped is not ABSENT and wrapped is self.original

    def end(self) -> Ending:
        """Return the ending of the slot, after the last layer has ended."""
        value = self.slot.read()
        self.value = self.original
        if is_same_value(value, self.original):
            return "restored"
        if beneath_proxies(value, lambda wrapped: wrapped is self.original) is not None:
            return "unlinked"
        return "displaced" if value is ABSENT else "dormant"

    def restore_later(self, on_restored: Callable[[], None]) -> None:
        """Restore the slot when it holds one of our values again; ``on_restored`` is called after that."""
        late_restore = LateRestore(self.slot, self.written, self.original, on_restored)
        if not late_restore.try_to_restore():
            late_restore.wait()


def _nothing_at(slot: Slot) -> Any:
    """Return the function under a wrapper that adds a name, of the kind that a ``def`` at the place would have."""
    kind = AttributeError if isinstance(slot, AttributeSlot) else KeyError

    def error() -> Exception:
        return kind(f"{slot} is added by a patch: without the patch there is nothing to call")

    if not isinstance(slot, AttributeSlot):
        return absent("added", slot.owner, error)
    function = absent(slot.name, slot.owner, error)
    if isinstance(slot.owner, type):
        return classmethod(function) if slot.name == "__class_getitem__" else function
    return function if isinstance(slot.owner, ModuleType) else MethodType(function, slot.owner)
