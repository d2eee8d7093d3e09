"""Applied layers: look at the slot, restore the slot, and note both in the entry of the patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from weakref import WeakSet, ref

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import Begun, is_interrupt
from hookpatch._engine.calls.noticed import reads_caller_by
from hookpatch._engine.patch.process_end import CodeEnd, text_of
from hookpatch._engine.site.effect import lack_of_effect, lost_in_place
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.slot_state import Ending
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.part import ClassSlot
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._session.ledger import Entry, Requested, State
from hookpatch._session.lifecycle import overwritten
from hookpatch.errors import DisplacedWarning, HookpatchWarning, PatchFailedWarning, warn

if TYPE_CHECKING:
    from hookpatch._engine.instances.exchange import Exchange
    from hookpatch._engine.instances.following import Following
    from hookpatch._engine.instances.living import Living

_NEVER_COPIED: Final = (ModuleType, type, FunctionType, MethodType, CellType)


@final
@dataclass(slots=True, eq=False)
class AppliedLayer:
    """A layer of a patch at a site. Lives until the ending of the slot is noted in the entry."""

    site: Site
    layer: Layer
    entry: Entry | None = None  # None until the layer is applied
    begun: Begun | None = None  # while the layer is being applied
    has_ended: bool = False
    following: Following | None = None  # of the copies of a patched object
    spec: object = ABSENT  # of the module with a copy of the target: a reload sets a new spec

    @property
    def was_interrupted(self) -> bool:
        """True if an interrupt kept the layer from being applied."""
        return (self.entry is None or self.layer.ended) and self.begun is not None and self.begun.is_interrupted()

    def follow_copies(self) -> None:
        """Follow the copies and pickles of a patched object, before the layer is applied."""
        slot = self.site.slot
        target = self.layer.patch.target
        is_of_rule = target is not None and target.of_instances is not None  # makes the copies instances of its own
        if isinstance(slot, AttributeSlot) and not (is_of_rule or issubclass(type(slot.owner), _NEVER_COPIED)):
            with imports.for_ourselves():
                from hookpatch._engine.instances.following import Following  # most patches are of no object
            self.following = Following(self.site, self.layer, self._note_copies)
            self.following.begin()

    def _note_copies(self, message: str, former: str = "") -> None:
        """Note what the patch does not do for copies, in place of a former message."""
        if self.entry is not None:
            others = [warning for warning in self.entry.warnings if warning not in (message, former)]
            self.entry.warnings = *others, message

    def left_out(self, error: Exception | None) -> Callable[[], None] | None:
        """Note that the layer no longer fits the value below, or fits again; return the warning to make later."""
        assert self.entry is not None  # the layer was applied
        if error is None:
            self.entry.become("applied")
            return None
        self.entry.become("failed", f"no longer applied: {error}")
        message = f"{self.layer.patch.address} of {self.layer.owner}: {self.entry.reason}"
        return partial(warn, PatchFailedWarning(message))

    def compare_slots(self) -> None:
        """Compare the slot with our value, and note the state. A call after the layer's end has no effect."""
        entry = self.entry
        if entry is not None and not (self.has_ended or self.layer.ended):
            try:
                entry.compared(overwritten.overwriting_value(self.site, self.layer, entry.reason))
                entry.without_effect = lack_of_effect(self.site, self.layer)
            except Exception as error:  # of the owner
                if is_interrupt(error):
                    raise
                entry.without_effect = self._unreadable(error)

    def differences(self) -> list[str]:
        """Return in words the side effects of the patch on a call of the target."""
        if self.following is not None:
            self.following.look()
        try:
            return self._differences()
        except Exception as error:  # of the owner
            if is_interrupt(error):
                raise
            problem = self._unreadable(error)
            return [] if self.entry is None or self.entry.without_effect == problem else [problem]

    def _unreadable(self, error: Exception) -> str:
        return f"{self.site.slot} cannot be read: {type(error).__name__}{text_of(error)}"

    def _differences(self) -> list[str]:
        layer, slot = self.layer, self.site.slot
        differences: list[str] = []
        if (layer.wraps or isinstance(slot, FunctionSlot)) and not self.site.adds_no_frame(layer):
            of_place = slot.copy if isinstance(slot, FunctionSlot) else beneath(slot)
            callees = [of_place] if layer.wraps else layer.values_in_slots
            looks = filter(None, (reads_caller_by(inner(callee)) for callee in callees))
            differences += [
                f"the target looks for its caller on the stack ({look}), and finds the patch instead" for look in looks
            ]
        differences += filter(None, [lost_in_place(self.site, layer)])
        return differences

    def restore(self, request: Requested) -> None:
        """Remove the layer, and note the ending of the slot."""
        try:
            self._restore(request)
        except Exception as error:
            if not is_interrupt(error):  # else ``begun`` stays, and the layer is restored again before another
                self._forget()
            raise
        self._forget()

    def _forget(self) -> None:
        self.begun = None
        if self.following is not None:
            self.following.end()
            self.following = None  # refers to this object: else the original would live until the next collection

    def _restore(self, request: Requested) -> None:
        if self.has_ended:
            return  # interrupted after the end
        # Without an entry another thread is about to apply the layer: the end of the layer keeps it from that.
        entry = self.entry or Entry(request)
        self.compare_slots()
        left_out = self.layer.is_left_out
        has_foreign_code = entry.state == "overwritten" and self.site.foreign_code(self.layer) is not None
        rest_in_words = "the original is back, with its own code" if has_foreign_code else "the slot was left alone"

        def note(ending: Ending) -> None:
            nonlocal entry
            entry = self.entry or entry
            if left_out:
                entry.become("failed", "was not applied at its end: the value underneath had gone before")
            elif entry.state == "overwritten" and ending != "unlinked":
                entry.become("overwritten", f"{entry.reason}; {rest_in_words}")
            elif ending == "restored":
                entry.become("restored", _left_alone(self.site.slot))
            else:
                entry.become(ending, _REASONS[ending].format(slot=self.site.slot))
            self.has_ended = True

        self.site.restore(self.layer, note, partial(_on_restored, ref(entry)))
        if entry.state in ("overwritten", "displaced"):
            warn_of(entry, request)


def warn_of(entry: Entry, request: Requested) -> None:
    """Warn at the end of a patch that other code has put another value in place of the patch's."""
    warn(DisplacedWarning(f"{request.patch.address} of {request.owner}: {entry.reason}"))


def _nothing() -> None: ...


def _unheard(instance: object) -> None: ...


@final
@dataclass(slots=True, eq=False)
class AppliedInstances:
    """The layers of a patch over instances, or over the class. Each layer has an entry outside of all reports."""

    entry: Entry
    living: Living | Exchange
    stop_listening: Callable[[], object] = _nothing  # ends the calls of ``born``
    born: Callable[[Any], None] = _unheard  # called with each new instance
    hears_copies: bool = False
    spread: Callable[[], None] = _nothing  # applies the patch to subclasses that have come since
    kinds: WeakSet[type] = field(default_factory=WeakSet)  # the classes of instances with the patch
    layers: dict[Site, AppliedLayer] = field(default_factory=dict)  # GIL: a change is one operation
    covered: str | None = None  # in words: other code has put a value over the patched method in an instance
    hooks: set[Site] = field(default_factory=set)  # the sites of layers that only notice new instances

    def compare_slots(self) -> None:
        """Note the state of all instances as the state of the patch."""
        self.spread()
        for applied in list(self.layers.values()):
            applied.compare_slots()
        states = self._states()
        self.covered = None if "overwritten" in states else self._covering()
        self.entry.compared(self._where("overwritten") if "overwritten" in states else self.covered)
        self.entry.without_effect = self._without_effect()
        self.entry.instances = self.living.count()
        self.entry.left_out = self.living.left_out()

    def differences(self) -> list[str]:
        """Return in words the side effects of the patch on a call: the same for all instances."""
        return next((applied.differences() for applied in list(self.layers.values())), [])

    def note_ending(self) -> None:
        """Note the worst ending of all layers as the patch's ending; each layer's own entry has the layer's ending."""
        states = self._states()
        worst = next((state for state in _WORST_FIRST if state in states), None)
        if worst is None and self.covered is not None:
            self.entry.become("overwritten", self.covered)
        else:
            self.entry.become(worst or "restored", worst and self._where(worst))

    def _without_effect(self) -> str:
        """Return why layers have no effect, and how many, in words; empty if all layers have."""
        entries = [layer.entry for site, layer in self.layers.copy().items() if layer.entry and site not in self.hooks]
        reasons = [entry.without_effect for entry in entries if entry.without_effect]
        if not reasons or len(reasons) == len(entries):
            return next(iter(reasons), "")
        reason = reasons[0].removeprefix("without effect").lstrip(": ")
        return f"without effect in {len(reasons)} of {len(entries)} places: {reason}"

    def _covering(self) -> str | None:
        """Return in words the value that other code put over the patched method in an instance; None without one."""
        layers = {**self.layers}
        keys = {site.slot.key for site in layers}
        entries = [slot for slot in self.living.entries() if slot.key not in keys]
        ours = [value for site, applied in layers.items() for value in site.values_of(applied.layer)] if entries else ()
        if not (covering := overwritten.covering_values(entries, ours)):
            return None
        return (
            f"{overwritten.in_words(*covering[0])}; in {len(covering)} of the instances patched: {self.living.count()}"
        )

    def _states(self) -> set[State]:
        return {applied.entry.state for applied in list(self.layers.values()) if applied.entry is not None}

    def _where(self, state: State) -> str:
        entries = [applied.entry for applied in list(self.layers.values()) if applied.entry is not None]
        reasons = [str(entry.reason) for entry in entries if entry.state == state]
        return f"{reasons[0]}; of {len(reasons)} of {len(entries)}" if len(entries) > 1 else reasons[0]


_WORST_FIRST: Final[tuple[State, ...]] = ("failed", "overwritten", "displaced", "dormant", "unlinked")


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
            problem = str(error) if isinstance(error, CodeEnd) else f"{type(error).__name__}{text_of(error)}"
            applied.entry.become("failed", f"could not be restored: {problem}")
        errors.append(error)


def _left_alone(slot: Slot) -> str | None:
    """Return in words how many instances keep a foreign class."""
    count = slot.changed if isinstance(slot, ClassSlot) else 0
    return f"but for {count} with a class set by other code, left unchanged" if count else None


def _on_restored(weak: Callable[[], Entry | None]) -> None:
    """Note a late restore. By a weak reference: the entry holds the patch, and the patch holds our value."""
    if (entry := weak()) is not None and entry.state in ("overwritten", *_REASONS):
        entry.become("restored", "after the value of other code was gone")


_REASONS: Final = {
    "unlinked": "other code wrapped {slot}; hookpatch's wrapper was removed from inside that wrapper",
    "dormant": "other code covers {slot} and holds hookpatch's wrapper, which passes through from now on",
    "displaced": "other code covers {slot} and holds hookpatch's value; the slot was left alone",
}
