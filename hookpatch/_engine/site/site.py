"""A site: a slot, its original, and the layers over it.

A Site keeps the original once, and an ordered list of layers. When a layer comes or goes, the new value of the slot is
computed from both. Therefore layers can be removed in any order, exactly: saved values on a stack can not.

Long because a change, its redoing after an interrupt and the late restore are one thing at one address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import CodeType
from typing import Any, Final, TypeAlias, final
from weakref import ReferenceType, ref

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.trampoline import pass_through
from hookpatch._engine.site.late_restore import LateRestore, is_recognisable, late_restores, weakly
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import ordered
from hookpatch._engine.site.recompute import NewState, SlotBefore
from hookpatch._engine.site.slot_state import Ending, Former, SlotState
from hookpatch._engine.site.stand_in import StandIn, keep_pointed, reuse
from hookpatch._engine.site.turn_lock import SiteLock
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot, InPlace, leads_to
from hookpatch._engine.slots.lazy import KNOWS_LAZY, follow, lazy_names, lazy_places
from hookpatch._engine.slots.originals import began, originals, patched_at, reading
from hookpatch._engine.slots.slot import ABSENT, Slot, inner, is_same_value

_Layers: TypeAlias = Sequence[Layer]  # never changed in place: a layer that comes or goes makes a new list
_Edit: TypeAlias = Callable[[_Layers], _Layers]
covered: Final[set[Site]] = set()  # sites with a foreign value in the slot in place of our value
# By the name of the attribute, the sites with an inherited value; under "" with a value fetched by a ``__getattr__``.
# GIL: each change is one operation.
_heirs: Final[dict[str, set[ReferenceType[Site]]]] = {}


class Alone:
    """The only layer of a site, with all values that the site needs to apply the layer again.

    Attributes:
        base: the value under the layer.
        is_applied: True from the beginning of ``lay_again`` to the end of ``lift_again``.
        layers: the site's list of layers while the layer is applied.
        facts: the site's facts from ``lay_again`` on.
    """

    __slots__ = (
        *("base", "call", "cell", "code", "facts", "function", "is_applied", "layer", "layers", "link", "names"),
        *("name", "off", "own", "references", "stand_in", "stand_ins", "value", "write", "written"),
    )

    def __init__(self, layer: Layer, own: Any, stand_in: StandIn | None, names: Any, name: str, write: Any) -> None:
        """Prepare the layer; ``names.get(name)`` reads the slot, and ``write(name, value)`` writes the slot."""
        self.layer: Final = layer
        self.names: Final = names
        self.name: Final = name
        self.write: Final = write
        self.own: Final = own
        self.base: Final = own if stand_in is None else stand_in.base
        self.stand_in: Final = stand_in
        self.stand_ins: Final = () if stand_in is None else (stand_in,)
        self.is_applied = False
        self.layers: Final = [layer]
        self.facts: Final[dict[str, Any]] = {}
        self.cell: Final[Any] = None if stand_in is None else stand_in.link
        cell: Any = self.cell
        self.value: Any = layer.patch.change if stand_in is None else stand_in.value
        if stand_in is not None:
            if not layer.is_ready:
                stand_in.fit(layer, stand_in.parameters())
            self.off: Final = None if cell is None else cell.cell_contents
            stand_in.point([layer])
            stand_in.layers = ()
        if cell is not None:
            self.link: Final = cell.cell_contents
            cell.cell_contents = self.off
        # The function of the wrapper; without a wrapper any function. No local variable: references are counted.
        self.function: Final[Any] = Alone.__init__ if cell is None else inner(self.value)
        self.code: Final = self.function.__code__
        self.call: Final = layer.call
        self.written: Final = (weakly(self.value),) if is_recognisable(self.value) else ()
        layer.end()
        self.references: Final = sys.getrefcount(self.value)  # without the slot; counted by this expression everywhere

    @property
    def has_present_defaults(self) -> bool:
        """True if the layer can be applied as long as the slot holds the same value."""
        return True

    def put_value(self) -> bool:
        """Put the value into the slot; change nothing and return False if the slot is not as before. On the fast path.

        ``Site.note_layer`` notes the layer.
        """
        if self.names.get(self.name) is not self.own or (KNOWS_LAZY and lazy_places(self.name)):
            return False
        if (cell := self.cell) is not None:
            if sys.getrefcount(self.value) != self.references:
                return False
            cell.cell_contents = self.link
        self.write(self.name, self.value)
        return True

    def take_value(self) -> None:
        """Undo ``put_value``."""
        if (cell := self.cell) is not None:
            cell.cell_contents = self.off
        if self.names.get(self.name) is self.value:
            self.write(self.name, self.own)

    def has_no_other_holder(self) -> bool:
        """Return True if no other code holds the layer's wrapper, which is not in the slot."""
        return self.stand_in is None or sys.getrefcount(self.value) == self.references


@final
class AloneInPlace(Alone):
    """The only layer of a function changed in place; ``home``: the target's slot, which holds the function."""

    __slots__ = ("_in_place",)

    def __init__(self, layer: Layer, slot: FunctionSlot, own: CodeType, home: AttributeSlot) -> None:
        stand_in = StandIn(slot.copy_with(own), slot, own=True)
        self._in_place: Final = InPlace(slot, stand_in.value, home)
        super().__init__(layer, own, stand_in, self._in_place, home.name, self._in_place.write)
        self._in_place.note_link()
        layer.home = home, slot.owner

    @property
    def has_present_defaults(self) -> bool:
        """True if the layer is over the function with the present defaults."""
        return self._in_place.is_over_the_copy

    def take_value(self) -> None:
        """Undo ``put_value``."""
        self._in_place.restore_code(self.own)

    def has_no_other_holder(self) -> bool:
        """Return True if no other code holds the link."""
        return self._in_place.has_no_other_holder()


@final
class Site:
    """A slot and its layers. Lives while it has layers."""

    __slots__ = (
        *(
            "__weakref__",
            "_ending",
            "last_facts",
            "_has_left_out",
            "_is_stale",
            "_layers",
            "_lazy",
            "_retired",
            "_spare",
            "_stand_ins",
            "_state",
        ),
        *("_unfinished", "lock", "slot"),
    )

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        # A lock for each site, since reading and writing the slot may run the owner's code; not held by factories.
        self.lock = SiteLock()
        self._layers: _Layers = []
        self._stand_ins: Sequence[StandIn] = ()  # in the slot, for each run of call layers
        self._retired: Sequence[ReferenceType[StandIn]] = ()  # no longer in the slot, but held by foreign code
        self._spare: StandIn | None = None  # of a site without layers: the last stand-in, to be used again
        self.last_facts: dict[str, Any] | None = None
        self._has_left_out = False
        self._is_stale = False
        self._ending: Ending = "restored"
        self._state: Final = SlotState(slot)
        self._lazy: Sequence[AttributeSlot] = ()  # lazy imports that will bind the slot's value
        self._unfinished: tuple[_Layers, NewState, Callable[[], None]] | None = None  # an interrupted change

    @property
    def original(self) -> Any:
        """The owner's own value before any layer, or ABSENT."""
        return self._state.original

    @property
    def base(self) -> Any:
        """The value under the innermost layer: the original, or what the owner inherited at the first layer."""
        return self._state.base

    @property
    def is_restored(self) -> bool:
        """True if the slot held no foreign value when the last layer ended."""
        return self._ending == "restored"

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, the outermost first."""
        return tuple(self._layers)

    @property
    def stand_ins(self) -> Sequence[StandIn]:
        """The stand-ins of the site's runs of call layers, and former stand-ins that foreign code may hold."""
        if not self._retired:
            return self._stand_ins
        return [*self._stand_ins, *(stand_in for weak in self._retired if (stand_in := weak()) is not None)]

    @property
    def facts(self) -> dict[str, Any] | None:
        """Facts that others have found out about the site with its only layer, each under its own key.

        Each ``lay_again`` of the layer brings the same dict back. None without layers, and after any other change.
        """
        return self.last_facts if self._layers else None

    @property
    def value(self) -> Any:
        """Our value in the slot; the original without layers."""
        return self._state.value

    @property
    def known_values(self) -> list[Any]:
        """The original, the inherited value, and our last values in the slot."""
        return self._state.known_values

    def adds_no_frame(self, layer: Layer) -> bool:
        """Return True if a layer's call adds no frame to the stack."""
        runs = [stand_in for stand_in in self._stand_ins if layer in stand_in.layers]
        return any(stand_in.adds_no_frame(layer) for stand_in in runs)

    def may_be_copied(self, former: Former) -> bool:
        """Return False if the former state alone refers to our value: no code has copied the value from the slot."""
        spare = self._spare
        return spare is None or spare.value is not former.value or not spare.has_holders(1)

    def apply(self, layer: Layer, note: Callable[[], None]) -> None:
        """Add a layer, unless the layer has ended; ``note`` is called before another change of the site.

        Raises:
            ApplyError, OrderError: the layer does not fit there; nothing is changed.
        """
        self._change(
            lambda layers: layers if layer.ended else ordered([*layers, layer], self.slot),
            lambda: note() if layer in self._layers and not layer.ended else None,
            adding=True,
        )

    def try_layers(self, layers: _Layers) -> list[Layer]:
        """Return layers in order over the present layers; raise like ``apply``. No slot is written, no layer is added.

        The caller has tried all but the last layer before, and leaves out layers that run a factory.
        """
        state, present, stand_ins = self._state, self._layers, self.stand_ins
        if not present:
            state, stand_ins = SlotState(self.slot), []
            state.read_original()
        after = ordered([*present, *layers], self.slot)
        if after[-1].patch.verb != "replace":
            state.look_up_base()
        SlotBefore(state, present, stand_ins).under(after, adding=True)
        return after

    def restore(self, layer: Layer, note: Callable[[Ending], None], on_restored: Callable[[], None]) -> Ending:
        """Remove a layer; call ``note`` with the ending of the slot, and return the ending.

        Other layers are left out if they do not fit without the removed layer.

        If a foreign value covers our value, the slot is restored late, with a call of ``on_restored``.

        Raises:
            Exception: raised by the owner when the slot was written; the layer passes calls through all the same.
        """
        layer.end()
        ending: Ending = "restored"

        def end() -> None:
            nonlocal ending
            if not self._layers and self._ending != "restored" and (self._state.written or not layer.is_needless):
                # What came into the slot of a needless layer has no value to cover.
                ending = "displaced" if self._ending == "dormant" and not layer.wraps else self._ending
            note(ending)
            if ending != "restored" or (not self._layers and self._state.may_come_back):
                self._state.restore_later(on_restored)

        self._change(lambda layers: [other for other in layers if other is not layer], end)
        return ending

    def alone(self, layer: Layer, own: Any, home: AttributeSlot | None) -> Alone | None:
        """Return a layer to apply here again, alone; None if a session must apply the layer first. On the fast path.

        ``home``: the target's slot, for a function changed in place.

        Raises:
            SignatureError: the layer does not fit the function.
        """
        if isinstance(self.slot, FunctionSlot):
            self._spare = None
            return None if self._layers or home is None else AloneInPlace(layer, self.slot, own, home)
        slot: Any = self.slot
        names = vars(slot.owner)
        place = names, slot.name, slot.writer(names)
        if not layer.wraps:
            return Alone(layer, own, None, *place)
        if self._layers:
            return None
        spare, self._spare = self._spare or StandIn(own, slot, own=True), None
        if spare.link is None or spare.base is not own or not spare.is_free:
            return None
        return Alone(layer, own, spare, *place)

    def spare(self, alone: Alone) -> None:
        """Use the wrapper of a lifted layer for the next layer."""
        if alone.stand_in is not None:
            alone.stand_in.point(())
            self._spare = None if alone.cell is None else alone.stand_in

    def lay_again(self, alone: Alone) -> bool:
        """Apply a layer here again; change nothing and return False if the site is not as before. On the fast path."""
        own, state = alone.own, self._state
        if self.last_facts is not alone.facts:
            if self._layers or self._retired or self._unfinished is not None:
                return False
            state.original = state.value = own
            state.base = alone.base
            state.writing, state.written = None, alone.written
            state.is_covered = state.may_come_back = False
            self._ending, self.last_facts = "restored", alone.facts
        alone.is_applied = True
        if reading:
            began(state)
        if not alone.put_value():
            originals.pop(self.slot.key, None)
            alone.layer.notes, alone.is_applied = None, False
            return False
        self.note_layer(alone)
        return True

    def note_layer(self, alone: Alone) -> None:
        """Note a layer whose value is in the slot; may be called again after an interrupt. On the fast path."""
        alone.is_applied = True
        if alone.stand_in is not None:
            alone.stand_in.layers = alone.layers
        self._stand_ins = alone.stand_ins
        alone.layer.ended, alone.layer.call = False, alone.call
        self._state.value = self._state.wanted = alone.value
        self._layers = alone.layers
        originals[self.slot.key] = self._state

    def lies_alone(self, alone: Alone) -> bool:
        """Return True if a layer was not touched since ``lay_again``. Asked on the fast path."""
        if self.last_facts is not alone.facts or alone.names.get(alone.name) is not alone.value:
            return False
        return alone.function.__code__ is alone.code

    def lift_again(self, alone: Alone) -> bool:
        """Undo ``lay_again``; return False if other code holds the layer's wrapper. Called on the fast path."""
        layer, state, stand_in = alone.layer, self._state, alone.stand_in
        layer.ended, layer.call, layer.notes = True, pass_through, None
        if stand_in is not None:
            stand_in.layers = ()
        alone.take_value()
        state.value = state.wanted = alone.own
        self._layers, self._stand_ins = [], ()
        originals.pop(self.slot.key, None)
        alone.is_applied = False
        if stand_in is None or alone.has_no_other_holder():
            return True
        stand_in.point(())
        return False

    def refresh(self) -> None:
        """Put all layers over the present value of the slot after a new execution of the module."""
        if not (lock := self.lock).take_turn():
            return lock.later(self.refresh)
        try:
            self._finish()
            if not self._layers or (self._state.is_intact and not self._is_stale):
                return None
            if not self._state.is_intact:
                self._is_stale = True  # until the layers are over the new value, also after an interrupt
                # Functions imported before the reload stay patched as long as our layers last.
                self._retired = keep_pointed(self._stand_ins, self._retired, _not_ended(self._layers))
                self._read_original()
            self._layers = _not_ended(self._layers)  # a new list: another thread's computation starts again
            began(self._state)
        finally:
            lock.end()
        self._change(_not_ended)
        self._is_stale = False
        return None

    def look_again(self, waiting: Sequence[LateRestore]) -> None:
        """Write our value if the covering foreign value has gone. Never wait for the lock."""
        if (lock := self.lock).take_turn(wait=False):
            try:
                self._finish()
                self._restore_late(waiting)
            finally:
                lock.end()

    def overwritten_by(self, layer: Layer) -> tuple[Slot, Any] | None:
        """Return the slot and the foreign value in it, if other code has overwritten our value; else None.

        A foreign value that leads to our value does not count as overwriting. A function changed in place is also
        overwritten when the target's slot holds another function.

        Raises:
            Exception: raised by the owner when the slot was read.
        """
        if layer not in self._layers or layer.is_left_out or layer.is_needless:
            return None
        if not self._state.is_intact:
            self.look_again(())  # the slot may hold an earlier value of ours
            if (overwriting := self._state.overwritten_by(partial(self._is_value_of, layer))) is not None:
                return overwriting
        if (code := self.foreign_code(layer)) is not None:
            return self.slot, code
        return None if layer.home is None else _overwritten_home(*layer.home, self.slot.owner)

    def values_of(self, layer: Layer) -> list[Any]:
        """Return the values of a layer: the values put into the slot, or the wrappers of ours that run the layer."""
        return [*layer.values_in_slots, *(stand_in.value for stand_in in self.stand_ins if layer in stand_in.layers)]

    def _is_value_of(self, layer: Layer, value: Any) -> bool:
        """Return True if a value is one of the layer's values."""
        values = filter(is_recognisable, self.values_of(layer))
        return any(inner(own_value) is inner(value) for own_value in values)

    def foreign_code(self, layer: Layer) -> CodeType | None:
        """Return the code that other code has assigned to our wrapper that runs a layer; None for our own code."""
        for stand_in in self._stand_ins:
            if layer in stand_in.layers and (code := stand_in.foreign_code) is not None:
                return code
        return None

    def _restore_late(self, waiting: Sequence[LateRestore]) -> None:
        # An error of the owner is suppressed: the looking code has not caused the error, and the next look tries again.
        for late_restore in waiting:
            with _owners_errors_suppressed:
                slot = late_restore.slot
                is_here = slot is not None and slot.key == self.slot.key
                if is_here and not (self._layers and self._state.holds_our_value) and late_restore.try_to_restore():
                    late_restore.forget()
        if self._layers:
            with _owners_errors_suppressed:
                self._write_value(self._state.wanted, self._layers)

    def _read_original(self) -> None:
        self.last_facts = None  # first: an interrupted read leaves another state
        self._state.read_original()
        self._stand_ins = ()

    def _change(self, edit: _Edit, note: Callable[[], None] = lambda: None, adding: bool = False) -> None:
        """Compute the new value for an edited list of layers, and commit it."""
        # Factories are foreign code, called without the lock: a factory may import a module while another thread
        # imports the same module and waits for the lock. If another thread has changed the site meanwhile, try again.
        while True:
            if not (lock := self.lock).take_turn():
                return lock.later(partial(self._change, edit, note))
            try:
                self._finish()
                if not self._layers:
                    if waiting := late_restores():
                        self._restore_late(waiting)
                    self._read_original()
                before, stand_ins = self._layers, self.stand_ins
                after = edit(before)
                if not after:  # no layers, nothing to compute
                    warnings = self._commit(after, NewState(self._state.original), note)
                    break
                if (new_state := self._with_spare(before, after)) is not None:
                    warnings = self._commit(after, new_state, note)
                    break
            finally:
                lock.end()
            try:
                if after[-1].patch.verb != "replace":
                    self._state.look_up_base()
                new_state = SlotBefore(self._state, before, stand_ins).under(after, adding)
            except Exception as error:
                if self._layers is before or is_interrupt(error):
                    raise
                continue  # the layers did not fit the site while another thread changed it
            lock = self.lock
            lock.take_turn()
            try:
                self._finish()
                # Without layers a reload may have changed the original while a factory ran.
                if self._layers is before and (before or not self._state.is_foreign):
                    warnings = self._commit(after, new_state, note)
                    break
            finally:
                lock.end()
        if warnings:
            with ExitStack() as stack:  # every warning is made, even if an earlier warning raises
                for warn in warnings:
                    stack.callback(warn)

    def _with_spare(self, before: _Layers, after: _Layers) -> NewState | None:
        """Return the new state of a first layer over the last stand-in; None if the state must be computed.

        No foreign code runs.
        """
        if (spare := self._spare) is None or before:
            return None
        self._spare = None
        if len(after) > 1 or not (after[0].wraps and after[0].is_ready):
            return None
        if self._state.base is not spare.base or not spare.is_free:
            return None
        return NewState(spare.value, [(spare, [*after])])

    def _commit(self, layers: _Layers, new_state: NewState, note: Callable[[], None]) -> list[Callable[[], None]]:
        """Write and note the new state; return the warnings to make when no lock is held."""
        self.last_facts = None
        self._unfinished = layers, new_state, note  # before the first act: after an interrupt the next thread goes on
        try:
            self._lay(layers, new_state)
        except Exception as error:
            if not is_interrupt(error):  # an error of the owner
                self._unfinished = None
            raise
        note()
        self._unfinished = None
        left_out = new_state.left_out
        if not (left_out or self._has_left_out):
            return []
        self._has_left_out = bool(left_out)
        return [warn for layer in layers if (warn := layer.leave_out(left_out.get(layer))) is not None]

    def _finish(self) -> None:
        """Finish an interrupted change. Called with the lock."""
        if self._unfinished is not None:
            self._commit(*self._unfinished)

    def _lay(self, layers: _Layers, new_state: NewState) -> None:
        runs, adding = new_state.runs, len(layers) > len(self._layers)
        stand_ins = [stand_in for stand_in, _ in runs]
        resting = [] if adding else self._resting(layers, stand_ins)
        if adding:
            present = self.stand_ins
            for stand_in, run in runs:
                if stand_in not in present:
                    stand_in.point(run)  # before any thread can call the new stand-in
            runs = [(stand_in, run) for stand_in, run in runs if stand_in in present]
            if not self._layers:
                began(self._state)
                self._lazy = lazy_names(self.slot)
                if self.original is ABSENT and isinstance(self.slot, AttributeSlot):
                    sites = _heirs.setdefault("" if self.slot.is_from_elsewhere else self.slot.name, set())
                    sites.add(ref(self, sites.discard))
            try:
                self._write_value(new_state.value, layers, adding)  # first: the owner may refuse the value
            except Exception as error:
                if not self._layers and not is_interrupt(error):
                    originals.pop(self.slot.key, None)
                raise
        for stand_in, run in runs:
            stand_in.point(run)
        dropped = (
            [stand_in for stand_in in self.stand_ins if stand_in not in stand_ins] if stand_ins else self.stand_ins
        )
        for stand_in, beneath, inside, ended in resting:
            own = self.original is not ABSENT or beneath is not self._state.base
            run = [*stand_in.layers, *(layer for layer in inside if layer not in stand_in.layers)]
            fitting = [layer for layer in run if layer in layers and layer not in new_state.left_out]
            stand_in.rest_on(beneath, own, self.slot, fitting, ended)
        self._retired = keep_pointed(dropped, self._retired, layers)
        if self._retired:
            self._retired = reuse({*stand_ins}, self._retired)
        self._stand_ins, self._layers, self._state.wanted = stand_ins, layers, new_state.value
        try:
            if not adding:
                self._write_value(new_state.value, layers)
        except Exception:
            if layers:
                covered.add(self)  # the next look tries again
            raise
        finally:
            if not layers:
                originals.pop(self.slot.key, None)
                covered.discard(self)
                for name in ("", getattr(self.slot, "name", "")) if _heirs else ():
                    _heirs.get(name, set()).discard(ref(self))
        if not layers:
            self._ending = self._state.end()
            if len(dropped) == 1 and self._ending == "restored":
                self._spare = dropped[0]

    def _resting(self, layers: _Layers, stand_ins: Sequence[StandIn]) -> list[tuple[StandIn, Any, _Layers, Layer]]:
        """Return the stand-ins over an ended value: each with the value beneath, the layers between, the ended layer.

        ``layers``, ``stand_ins``: those that remain in the slot.
        """
        if not [layer for layer in self._layers if not layer.wraps and layer not in layers]:
            return []
        leaving = [stand_in for stand_in in self.stand_ins if stand_in not in stand_ins]
        resting: list[tuple[StandIn, Any, _Layers, Layer]] = []
        beneath = self._state.base
        inside: list[Layer] = []
        for layer in reversed(self._layers if leaving else ()):
            if layer.wraps:
                inside = [layer, *inside]
            elif not (layer.is_left_out or layer.is_needless):
                if layer not in layers and beneath is not ABSENT:
                    given = layer.value_ids
                    over = [stand_in for stand_in in leaving if id(inner(stand_in.base)) in given]
                    resting += [(stand_in, beneath, inside, layer) for stand_in in over]
                runs = (stand_in for stand_in in self._stand_ins if not set(inside).isdisjoint(stand_in.layers))
                beneath = layer.given_over(next((stand_in.value_for_outer for stand_in in runs), beneath))
                inside = []
        return resting

    def _write_value(self, value: Any, layers: Sequence[Layer], adding: bool = False) -> None:
        self.last_facts = None
        before = self._state.value
        self._state.write(value, layers, adding)
        if self._lazy and not adding:
            follow(self._lazy, before, self._state.value)
        (covered.add if self._state.is_covered else covered.discard)(self)

    def __repr__(self) -> str:
        return f"<Site {self.slot} with {list(self.layers)}>"


def has_heirs() -> bool:
    """Return True if a patched site inherits or fetches its value, or has done so."""
    return bool(_heirs)


def heirs(name: str) -> list[Site]:
    """Return the patched sites of owners that inherit the value of a name; for "" of owners that fetch the value."""
    sites = (weak() for weak in _heirs.get(name, set()).copy()) if _heirs else ()
    return [site for site in sites if site is not None and site.layers and site.slot.owner is not None]


def _overwritten_home(home: Slot, own: Any, function: Any) -> tuple[Slot, Any] | None:
    """Return the slot and value of a target that no longer leads to the function changed in place.

    ``own``: the value in the slot when the function was changed.
    """
    value = home.read()
    if value is own or inner(value) is function:
        return None
    state = patched_at(home.key)
    if isinstance(state, SlotState) and (inner(state.base) is function or state.original is own):
        return state.overwritten_by(lambda referent: inner(referent) is function)  # the slot is patched as well
    if leads_to(value, function):
        return None
    return (home, value) if is_same_value(value, home.read()) else None  # else another thread's patch ended just now


class _Suppressing:
    """A block with suppressed errors, except interrupts."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        return error is not None and not is_interrupt(error)


_owners_errors_suppressed: Final = _Suppressing()


def _not_ended(layers: _Layers) -> _Layers:
    """Return a new list of the layers that have not ended."""
    return [layer for layer in layers if not layer.ended]
