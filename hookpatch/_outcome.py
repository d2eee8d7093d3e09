"""What is to become of a slot when a layer comes or goes: computed from the original and the layers, and from no more.

Nothing is changed here. What runs meanwhile (a ``derive`` factory) is foreign code, and no lock of ours is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from hookpatch._function_slot import FunctionSlot
from hookpatch._guard import check_callable
from hookpatch._hold import Hold
from hookpatch._layer import Layer
from hookpatch._order import Pile, place
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, inner
from hookpatch._standing import Standing
from hookpatch._target import a_kind
from hookpatch._trampoline import can_stand_in
from hookpatch.errors import TargetRefused

Run: TypeAlias = tuple[Standing, list[Layer]]  # call layers that lie together, and what stands for them


@final
@dataclass(slots=True)
class Outcome:
    """What is to become of a slot.

    Attributes:
        value: what belongs into it.
        runs: what each run of call layers is to do.
        left_out: which layers cannot lie there, and why.
        one: the layer that comes or goes when no other but those of its run is touched.
    """

    value: Any = ABSENT
    runs: list[Run] = field(default_factory=list)
    left_out: dict[Layer, Exception] = field(default_factory=dict)
    one: Layer | None = None


@final
@dataclass(slots=True)
class Ground:
    """A slot as a change finds it: what is computed of it is computed from this. Lives as long as the change.

    Attributes:
        hold: the slot, with its original and what the innermost layer lies over.
        pile: the layers that lie there.
        wanted: what belongs into the slot because of them.
        known: what stands in the slot for call layers, or did and may be held by somebody.
    """

    hold: Hold
    pile: Pile
    wanted: Any
    known: Sequence[Standing]

    def beside(self, after: Pile, layer: Layer) -> Outcome | None:
        """Return what is to become of it when one layer comes or goes and only its neighbours need be looked at.

        So the thousandth takes as long as the first. None: more may change than that.
        """
        before = self.pile
        if layer.wraps and not before.layers:
            return None
        less = len(before.layers) > len(after.layers)
        at = (before if less else after).place(layer)
        if at is None:
            return None
        outside, inside = after.layers[max(at - 1, 0) : at], after.layers[at + (not less) :][:1]
        if layer.wraps:
            return self._in_its_run(layer, [layer] if less else [*outside, *inside], less)
        if layer.patch.verb != "replace" or isinstance(self.hold.slot, FunctionSlot):
            return None
        if outside:  # beneath another value nothing shows
            return Outcome(self.wanted, one=layer) if outside[0].patch.verb == "replace" else None
        if not less:
            return Outcome(layer.value(ABSENT, self.hold.slot), one=layer)
        if not inside:
            return Outcome(self.hold.original, one=layer)
        if (standing := inside[0].standing) is not None:
            return Outcome(standing.value, one=layer)
        is_value = inside[0].patch.verb == "replace"
        return Outcome(inside[0].value(ABSENT, self.hold.slot), one=layer) if is_value else None

    def _in_its_run(self, layer: Layer, others: Sequence[Layer], less: bool) -> Outcome | None:
        """Return what is to become of it when a call layer comes or goes beside others around the same thing."""
        standing = next((one.standing for one in others if one.standing is not None), None)
        if standing is None or (less and len(standing.layers) == 1):
            return None
        at = place(standing.layers, layer)
        if less:
            run = [*standing.layers[:at], *standing.layers[at + 1 :]]
        else:
            standing.fit(layer)
            run = [*standing.layers[:at], layer, *standing.layers[at:]]
        return Outcome(self.wanted, [(standing, run)], one=layer)

    def under(self, layers: Sequence[Layer], adding: bool) -> Outcome:
        """Return what is to become of it, and of all layers, when these lie there.

        Args:
            layers: the layers, one at least, the outermost first.
            adding: True when one is being added, which must not put another one out.

        Raises:
            Exception: what keeps a layer from lying there, when one is being added.
        """
        value, own = self.hold.base, self.hold.original is not ABSENT
        runs: list[Run] = []
        left_out: dict[Layer, Exception] = {}
        run: list[Layer] = []
        standing: Standing | None = None
        for layer in reversed(layers):
            try:
                if layer.wraps:
                    standing = standing or self._standing(value, own, layer)
                    standing.fit(layer)
                    run.insert(0, layer)
                    continue
                if standing is not None and run:
                    standing = self._settled(standing, run, layers, own)
                    runs.append((standing, run))
                    value, run = standing.seen, []
                standing = None
                over = layer.value(value if value is not ABSENT else self._nothing(layer), self.hold.slot)
                value, own = self._callable(over, layer) if isinstance(self.hold.slot, FunctionSlot) else over, True
            except Exception as error:
                if adding and not layer.is_left_out:
                    raise
                left_out[layer] = error
        calls = isinstance(self.hold.slot, FunctionSlot) and value is not self.hold.base
        if calls and not run:
            # A value cannot stand in a function: it is called there.
            standing = self._standing(value, own, layers[0])
        if standing is not None and (run or calls):
            standing = self._settled(standing, run, layers, own)
            runs.append((standing, run))
            value = standing.value
        return Outcome(self.hold.original if value is self.hold.base else value, runs, left_out)

    def _callable(self, value: Any, layer: Layer) -> Any:
        """Return what a value puts into a function: what is called instead of it."""
        called = inner(value)
        if callable(called) and can_stand_in(self.hold.base, called):
            return called
        what = "something of another kind (async, generator)" if callable(called) else a_kind(value)
        problem = f"reach='everywhere' changes the function inside: it is to call something else, not {what}"
        raise TargetRefused(layer.patch.address, layer.owner, f"{problem}; take reach='slot'")

    def _nothing(self, layer: Layer) -> Any:
        """Return ABSENT to a layer that can lie over nothing; refuse the others."""
        if layer.patch.verb == "derive":
            assert layer.patch.target is not None  # only enter has none
            raise missing(self.hold.slot, layer.patch.target, layer.owner)
        return ABSENT

    def _standing(self, base: Any, own: bool, layer: Layer) -> Standing:
        """Return what stands over a base: the one that stands there already, if there is one."""
        for standing in self.known:
            if standing.base is base:
                return standing
        if not isinstance(self.hold.slot, FunctionSlot):
            check_callable(layer.patch, self.hold.slot, base, layer.owner)
        return Standing(base, self.hold.slot, own)

    def _settled(self, standing: Standing, run: list[Layer], layers: Sequence[Layer], own: bool) -> Standing:
        """Return what stands for a run: one that stood for it before, if it did for no other layer that is still there.

        No layer moves from one to another: a call on its way through both would run it twice, or not at all.
        """
        if not self.known:
            return standing
        there, came_before = set(layers), set(run).intersection(self.pile.layers)
        for one in self.known:
            if one.base is standing.base and there.intersection(one.layers) == came_before:
                return one
        is_new = all(one is not standing for one in self.known)
        return standing if is_new else Standing(standing.base, self.hold.slot, own)
