"""Compute the new state of a slot when a layer comes or goes, from the original and the layers alone.

No slot is written here. A ``derive`` factory runs here: foreign code, which must run without a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter
from types import FunctionType
from typing import Any, TypeAlias, cast, final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.beneath import inherited
from hookpatch._engine.calls.trampoline import can_stand_in
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.patch import MAKING_VERBS
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.slot_state import SlotState
from hookpatch._engine.site.stand_in import StandIn
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.guard import check_callable
from hookpatch._engine.slots.resolve import missing
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch.errors import TargetRefused

Run: TypeAlias = tuple[StandIn, list[Layer]]  # adjacent call layers, and their stand-in


@final
@dataclass(slots=True)
class NewState:
    """The new state of a slot: the value to write, and the layers for each stand-in to run."""

    value: Any = ABSENT
    runs: list[Run] = field(default_factory=list)
    left_out: dict[Layer, Exception] = field(default_factory=dict)  # the layers that do not fit the value below


@final
@dataclass(slots=True)
class SlotBefore:
    """A slot before a change. Lives as long as the change."""

    state: SlotState
    layers: Sequence[Layer]
    stand_ins: Sequence[StandIn]  # in the slot, or held by foreign code
    _by_base: dict[int, list[StandIn]] = field(init=False, default_factory=dict)  # by the id of the base

    def __post_init__(self) -> None:
        for stand_in in self.stand_ins:
            self._by_base.setdefault(id(stand_in.base), []).append(stand_in)

    def under(self, layers: Sequence[Layer], adding: bool) -> NewState:
        """Return the new state with a list of at least one layer, the outermost first.

        A layer that does not fit is left out. The error of a layer being added is raised instead.
        """
        value, own = self.state.base, self.state.original is not ABSENT
        runs: list[Run] = []
        left_out: dict[Layer, Exception] = {}
        run: list[Layer] = []  # the innermost first, until complete
        stand_in: StandIn | None = None
        fitting: StandIn | None = None
        parameters: list[Parameter] | None = None  # those below ``fitting``
        for layer in reversed(layers):
            try:
                if value is ABSENT and layer.patch.verb != "replace" and not layer.patch.add:
                    self._check_beneath(layer, layers)
                if layer.wraps and layer.finds_value(value, self.state.slot):
                    continue
                if layer.wraps:
                    if value is ABSENT and layer.patch.add:
                        value, own = self.state.nothing, True
                    stand_in = stand_in or self._stand_in_over(value, own, layer)
                    if not layer.is_ready:
                        if fitting is not stand_in:
                            fitting, parameters = stand_in, stand_in.parameters()
                        stand_in.fit(layer, parameters)
                    run.append(layer)
                    continue
                if stand_in is not None and run:
                    run.reverse()
                    stand_in = self._stand_in_for_run(stand_in, run, layers, own)
                    runs.append((stand_in, run))
                    value, run = stand_in.value_for_outer, []
                    if layer.patch.verb in MAKING_VERBS:
                        stand_in.derived_by |= {layer.rank}
                stand_in = None
                is_inherited = value is self.state.base and self.state.original is ABSENT
                inherits = partial(_inherited, self.state.slot, value) if is_inherited else None
                over = layer.value(value, self.state.slot, inherits)
                value, own = self._callable(over, layer) if isinstance(self.state.slot, FunctionSlot) else over, True
            except Exception as error:
                if (adding and not layer.is_left_out) or is_interrupt(error):
                    raise
                left_out[layer] = error
        calls = isinstance(self.state.slot, FunctionSlot) and value is not self.state.base
        if calls and not run:
            # A function slot holds code: the code of a stand-in calls the value.
            stand_in = self._stand_in_over(value, own, layers[0])
        if stand_in is not None and (run or calls):
            run.reverse()
            stand_in = self._stand_in_for_run(stand_in, run, layers, own)
            runs.append((stand_in, run))
            value = stand_in.value
        return NewState(self.state.original if value is self.state.base else value, runs, left_out)

    def _check_beneath(self, layer: Layer, layers: Sequence[Layer]) -> None:
        """Raise TargetRefused for a layer over nothing if an outer layer adds the name, else TargetNotFound."""
        patch, slot = layer.patch, self.state.slot
        is_over_nothing = patch.verb != "remove" or (self.state.base is ABSENT and layer not in self.layers)
        outside = (
            outer
            for outer in layers[: layers.index(layer)]
            if (outer.patch.verb == "replace" or (outer.patch.add and patch.verb != "edit")) and not outer.ended
        )
        if is_over_nothing and (adder := next(outside, None)) is not None:
            adding = f"{adder.patch.verb} {adder.patch.by_rule}".rstrip()
            problem = (
                f"{slot} holds nothing, and the {adding} of {adder.owner} adds the name outside of this {patch.verb}"
            )
            way = f"give the {patch.verb} before the {adder.patch.verb}: the first of a session lies outside"
            if adder.owner != layer.owner:
                way = f"select {layer.owner} before {adder.owner}, or declare the order with before= or after="
            raise TargetRefused(patch.address, layer.owner, f"{problem}; {way}")
        if patch.verb in MAKING_VERBS:
            assert patch.target is not None  # only enter has none
            raise missing(slot, patch.target, layer.owner)

    def _callable(self, value: Any, layer: Layer) -> Any:
        """Return the callable that a function slot calls for a value."""
        called = inner(value)
        if callable(called) and can_stand_in(self.state.base, called):
            return called
        kind = "a function of another kind (async, generator)" if callable(called) else a_kind(value)
        problem = (
            f"reach='everywhere' changes the function in place: the function can call plain functions only, not {kind}"
        )
        raise TargetRefused(layer.patch.address, layer.owner, f"{problem}; take reach='slot'")

    def _stand_in_over(self, base: Any, own: bool, layer: Layer) -> StandIn:
        """Return the stand-in over a base: a known stand-in, or a new one."""
        if known := self._by_base.get(id(base)):
            return known[0]
        if not isinstance(self.state.slot, FunctionSlot):
            check_callable(layer.patch, self.state.slot, base, layer.owner)
        return StandIn(base, self.state.slot, own)

    def _stand_in_for_run(self, stand_in: StandIn, run: list[Layer], layers: Sequence[Layer], own: bool) -> StandIn:
        """Return the stand-in of a run: a known stand-in with the same remaining layers, or a new one.

        No layer moves from one stand-in to another: a running call of both would run the layer twice, or not at all.
        If an ended layer derived a value from a stand-in, the stand-in gets no new layer: a running call of the derived
        value would run the new layer inside.
        """
        came_before, ranks = set(run).intersection(self.layers), {layer.rank for layer in layers}
        for candidate in self._by_base.get(id(stand_in.base), ()):
            if set(layers).intersection(candidate.layers) == came_before and (
                candidate.derived_by <= ranks or came_before.issuperset(run)
            ):
                return candidate
        return StandIn(stand_in.base, self.state.slot, own) if stand_in in self.stand_ins else stand_in


def _inherited(slot: Slot, value: Any) -> Any:
    """Return a function that looks an inherited method up at each call; the value itself if it is no function."""
    if slot.in_class is None or not isinstance(value, FunctionType):
        return value
    return inherited(slot.in_class, cast(AttributeSlot, slot).name, value)
