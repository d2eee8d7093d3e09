"""Applied layers and entered context managers, and the undo of both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, final
from weakref import ref

from hookpatch._bootstrap.imports import Watch
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.noticed import by_what
from hookpatch._engine.patch.patch import GIVING_VERBS
from hookpatch._engine.site.layer import Layer, lost_inside
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import hidden, site_in
from hookpatch._engine.site.slot_state import Ending
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.part import ClassSlot
from hookpatch._engine.slots.slot import Slot, inner
from hookpatch._session import overwritten
from hookpatch._session.ledger import Entry, Requested, State
from hookpatch.errors import DisplacedWarning, HookpatchWarning, PatchFailedWarning

if TYPE_CHECKING:
    from hookpatch._engine.instances.exchange import Exchange
    from hookpatch._engine.instances.living import Living  # most patches mean no instances


@final
@dataclass(slots=True, eq=False)
class AppliedLayer:
    """A layer of a patch at a site. Lives until the ending of the slot is noted in the entry."""

    site: Site
    layer: Layer
    entry: Entry | None = None  # None until the layer is applied
    library: Watch | None = None  # waits for torch: the torch plugin must know of some layers
    has_ended: bool = False

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note that the layer no longer fits the value below, or fits again; return the warning to make later."""
        assert self.entry is not None  # the layer was applied
        if error is None:
            self.entry.become("applied")
            return None
        self.entry.become("failed", f"no longer applied: {error}")
        message = f"{self.layer.patch.address} of {self.layer.owner}: {self.entry.reason}"
        return partial(warnings.warn, message, PatchFailedWarning, stacklevel=2)

    def without_effect(self, reason: str) -> None:
        """Note why the layer, or an injected argument, has no effect; an empty text if all is in effect."""
        if self.entry is not None:  # else the reason is noted with the entry
            self.entry.without_effect = reason

    def look(self) -> None:
        """Compare the slot with our value, and note the state. A call after the layer's end has no effect."""
        entry = self.entry
        if entry is not None and not (self.has_ended or self.layer.ended):
            entry.compared(overwritten.look(self.site, self.layer, entry.reason))
            by = hidden(self.site, self.layer)
            entry.without_effect = self.layer.without_effect or ("" if by is None else by.text)

    def differences(self) -> list[str]:
        """Return in words the side effects of the patch on a call of the target."""
        layer, slot = self.layer, self.site.slot
        is_inside = isinstance(slot, FunctionSlot)
        said: list[str] = []
        if (layer.wraps or is_inside) and not self.site.adds_no_frame(layer):
            of_place = slot.copy if isinstance(slot, FunctionSlot) else beneath(slot)
            callees = [of_place] if layer.wraps else layer.put
            looks = filter(None, (by_what(inner(callee)) for callee in callees))
            said += [
                f"the target looks for its caller on the stack ({what}), and finds the patch there" for what in looks
            ]
        callee = None if is_inside or layer.patch.verb not in GIVING_VERBS else inner(beneath(slot))
        if type(callee) is FunctionType:
            said += filter(None, [lost_inside(layer, site_in(callee).layers)])
        return said

    def restore(self, asked: Requested) -> None:
        """Remove the layer, and note the ending of the slot."""
        if self.library is not None:
            self.library.cancel()
        if self.has_ended:
            return  # interrupted after the end
        entry = self.entry or Entry(asked)  # no entry while another thread is about to apply the layer: `end` stops it
        self.look()
        left_out = self.layer.is_left_out
        left = (
            "the original is back, with its own code"
            if self.site.foreign_code(self.layer)
            else "the slot was left alone"
        )

        def note(ending: Ending) -> None:
            nonlocal entry
            entry = self.entry or entry
            if left_out:
                entry.become("failed", "was not applied when it ended: what it lay over had gone before")
            elif entry.state == "overwritten" and ending != "unlinked":
                entry.become("overwritten", f"{entry.reason}; {left}")
            elif ending == "restored":
                entry.become("restored", _left_alone(self.site.slot))
            else:
                entry.become(ending, _REASONS[ending].format(slot=self.site.slot))
            self.has_ended = True

        self.site.restore(self.layer, note, partial(_on_restored, ref(entry)))
        if entry.state in ("overwritten", "displaced"):
            message = f"{asked.patch.address} of {asked.owner}: {entry.reason}"
            warnings.warn(message, DisplacedWarning, stacklevel=2)


def _nothing() -> None: ...


def _unheard(thing: object) -> None: ...


@final
@dataclass(slots=True, eq=False)
class AppliedInstances:
    """The layers of a patch over instances, or over the class. Each layer has an entry outside of all reports."""

    entry: Entry
    living: Living | Exchange
    deaf: Callable[[], object] = _nothing  # ends the hearing of new instances
    born: Callable[[Any], None] = _unheard  # called with each new instance
    hears_copies: bool = False
    library: Watch | None = None  # waits for torch, for all layers
    layers: dict[Site, AppliedLayer] = field(default_factory=dict)  # GIL: a change is one operation

    def look(self) -> None:
        """Note the state of all instances as the state of the patch."""
        for applied in list(self.layers.values()):
            applied.look()
        states = self._states()
        self.entry.compared(self._where("overwritten") if "overwritten" in states else None)
        self.entry.instances = self.living.count()
        self.entry.left_out = self.living.meant.left_out()

    def ended(self) -> None:
        """Note the worst ending of all layers as the patch's ending; each layer's own entry has the layer's ending."""
        states = self._states()
        worst = next((state for state in _WORST if state in states), None)
        self.entry.become(worst or "restored", worst and self._where(worst))

    def _states(self) -> set[State]:
        return {applied.entry.state for applied in list(self.layers.values()) if applied.entry is not None}

    def _where(self, state: State) -> str:
        entries = [applied.entry for applied in list(self.layers.values()) if applied.entry is not None]
        reasons = [str(entry.reason) for entry in entries if entry.state == state]
        return f"{reasons[0]}; of {len(reasons)} of {len(entries)}" if len(entries) > 1 else reasons[0]


_WORST: Final[tuple[State, ...]] = ("failed", "overwritten", "displaced", "dormant", "unlinked")


class _Part(Protocol):
    """The lifecycle of a patch of a class's part."""

    @property
    def touched(self) -> list[Site]: ...
    def check(self) -> list[Any]: ...
    def restore(self, errors: list[Exception], touched: list[Site], gone: dict[Site, Any]) -> None: ...
    def forget(self) -> None: ...


_P = TypeVar("_P", bound=_Part)


@final
@dataclass(slots=True, eq=False)
class EditedClass(Generic[_P]):
    """The functions and attributes changed by an edit of a class.

    Attributes:
        slot: the slot of the class.
        cls: the class.
        doubts: in words, the code that has used the unedited class.
        parts: the lifecycle of each part's patch.
        begun: the lifecycles whose patches were applied, or begun to be.
    """

    slot: Slot
    cls: type
    doubts: tuple[str, ...]
    parts: list[_P]
    begun: list[_P] = field(default_factory=list)

    def restore(self, errors: list[Exception], touched: list[Site], gone: dict[Site, Any]) -> None:
        """Restore all parts, past every error; collect as ``Lifecycle.restore``."""
        for part in reversed([*self.begun]):
            part.restore(errors, touched, gone)

    def forget(self) -> None:
        """Forget the restored parts."""
        for part in self.begun:
            part.forget()


@final
@dataclass(slots=True, eq=False)
class Entered:
    """A context manager entered for a patch."""

    entry: Entry
    stack: ExitStack

    def restore(self, asked: Requested) -> None:
        """Leave the context manager."""
        self.stack.close()
        self.entry.become("restored")


def undo(applied: AppliedLayer | Entered, asked: Requested, errors: list[Exception]) -> None:
    """Restore a layer or leave a context manager; collect an error, and let further undos follow."""
    try:
        applied.restore(asked)
    except HookpatchWarning as warning:  # made an error by the user; the undo itself is done
        errors.append(warning)
    except Exception as error:
        if is_interrupt(error):
            raise
        if applied.entry is not None:
            applied.entry.become("failed", f"could not be restored: {type(error).__name__}: {error}")
        errors.append(error)


def _left_alone(slot: Slot) -> str | None:
    """Return in words how many instances keep a foreign class."""
    count = slot.changed if isinstance(slot, ClassSlot) else 0
    return f"but for {count} with a class that other code has given, which was left alone" if count else None


def _on_restored(weak: Callable[[], Entry | None]) -> None:
    """Note a late restore. By a weak reference: the entry holds the patch, and the patch holds our value."""
    if (entry := weak()) is not None and entry.state in ("overwritten", *_REASONS):
        entry.become("restored", "after the value of other code was gone")


_REASONS: Final = {
    "unlinked": "other code wrapped {slot}; hookpatch's wrapper was removed from inside that wrapper",
    "dormant": "other code covers {slot} and holds hookpatch's wrapper, which passes through from now on",
    "displaced": "other code covers {slot} and holds hookpatch's value; the slot was left alone",
}
