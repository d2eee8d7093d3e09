"""An applied layer: look at the slot, restore the slot, and note both in the entry of the patch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Final, Protocol, final
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
from hookpatch._session.ledger import Entry, Requested
from hookpatch._session.lifecycle import overwritten
from hookpatch.errors import DisplacedWarning, HookpatchWarning, PatchFailedWarning


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
        differences: list[str] = []
        if (layer.wraps or is_inside) and not self.site.adds_no_frame(layer):
            of_place = slot.copy if isinstance(slot, FunctionSlot) else beneath(slot)
            callees = [of_place] if layer.wraps else layer.put
            looks = filter(None, (by_what(inner(callee)) for callee in callees))
            differences += [
                f"the target looks for its caller on the stack ({look}), and finds the patch there" for look in looks
            ]
        callee = None if is_inside or layer.patch.verb not in GIVING_VERBS else inner(beneath(slot))
        if type(callee) is FunctionType:
            differences += filter(None, [lost_inside(layer, site_in(callee).layers)])
        return differences

    def restore(self, request: Requested) -> None:
        """Remove the layer, and note the ending of the slot."""
        if self.library is not None:
            self.library.cancel()
        if self.has_ended:
            return  # interrupted after the end
        entry = self.entry or Entry(
            request
        )  # no entry while another thread is about to apply the layer: `end` stops it
        self.look()
        left_out = self.layer.is_left_out
        rest_in_words = (
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
                entry.become("overwritten", f"{entry.reason}; {rest_in_words}")
            elif ending == "restored":
                entry.become("restored", _left_alone(self.site.slot))
            else:
                entry.become(ending, _REASONS[ending].format(slot=self.site.slot))
            self.has_ended = True

        self.site.restore(self.layer, note, partial(_on_restored, ref(entry)))
        if entry.state in ("overwritten", "displaced"):
            message = f"{request.patch.address} of {request.owner}: {entry.reason}"
            warnings.warn(message, DisplacedWarning, stacklevel=2)


class AwaitsLibrary(Protocol):
    """An applied patch with a watch that waits for torch: the torch plugin must know of some layers."""

    library: Watch | None


class Applied(Protocol):
    """An applied part of a patch: a layer, or an entered context manager."""

    @property
    def entry(self) -> Entry | None: ...
    def restore(self, request: Requested) -> None: ...


def undo(applied: Applied, request: Requested, errors: list[Exception]) -> None:
    """Restore a layer or leave a context manager; collect an error, and let further undos follow."""
    try:
        applied.restore(request)
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
