"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from threading import RLock
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._guard import check_callable
from hookpatch._layer import Layer
from hookpatch._order import ordered
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, FunctionSlot, Slot, originals, same
from hookpatch._standing import Standing
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "dormant", "displaced"]
_Run: TypeAlias = tuple[Standing, list[Layer]]  # call layers that lie together, and what stands for them

_lock: Final = RLock()
_sites: Final[dict[tuple[Any, ...], Site]] = {}


@final
class Site:
    """One slot with the owner's own value or nothing. Lives while it has layers.

    Attributes:
        slot: the place.
        original: the owner's own value before any layer, or ABSENT.
    """

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        self._layers: list[Layer] = []
        self._retired: list[_Run] = []
        self._ground()

    def _ground(self) -> None:
        """Take what the slot holds now as the original."""
        self.original: Any = self.slot.read()
        self._base: Any = self.original if self.original is not ABSENT else self.slot.inherited()
        self._held: Any = self.original  # what the slot holds as far as we know: the original, or what we put
        self._runs: list[_Run] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, the outermost first."""
        return tuple(self._layers)

    def add(self, layer: Layer) -> None:
        """Put a layer on.

        Raises:
            ApplyError, OrderError: it cannot lie there; nothing is changed.
        """
        self._change(lambda layers: ordered([*layers, layer], self.slot), adding=True)

    def drop(self, layer: Layer) -> Ending:
        """Take a layer off; return what became of the slot.

        Another layer that cannot lie over what is left is left out, and told so.

        Raises:
            Exception: what the owner raised when the slot was set; the layer passes through all the same.
        """
        layer.end()
        self._change(lambda layers: [other for other in layers if other is not layer])
        if self._layers or same(self.slot.read(), self.original):
            return "restored"
        return "dormant" if layer.wraps else "displaced"

    def refresh(self) -> None:
        """Lay all layers over what the slot holds now: its module was executed anew."""
        with _lock:
            if same(self.slot.read(), self._held):
                return
            self._retired += self._runs  # functions taken before the reload stay patched as long as we are
            self._ground()
            layers, self._layers = self._layers, []
        self._change(lambda _: layers)

    def _change(self, edit: Callable[[list[Layer]], list[Layer]], adding: bool = False) -> None:
        # Factories are foreign code: they run outside the lock, lest they import what another thread is importing
        # while it waits for us. If somebody changed the site meanwhile, once more.
        while True:
            with _lock:
                before = self._layers
                after = edit(before)
            value, runs, left_out = self._compute(after, adding)
            with _lock:
                if self._layers is before:
                    self._commit(after, value, runs)
                    break
        with ExitStack() as telling:  # all are told, whatever one of them raises
            for layer in after:
                telling.callback(layer.leave_out, left_out.get(layer))

    def _compute(self, layers: Sequence[Layer], adding: bool) -> tuple[Any, list[_Run], dict[Layer, Exception]]:
        """Return what belongs into the slot, what each run of call layers is to do, and which layers cannot lie there.

        Raises:
            Exception: what keeps a layer from lying there, when one is being added: it must not put another one out.
        """
        value, own = (self._base if layers else self.original), self.original is not ABSENT
        runs: list[_Run] = []
        left_out: dict[Layer, Exception] = {}
        run: list[Layer] = []
        standing: Standing | None = None
        for layer in reversed(layers):
            try:
                if layer.wraps:
                    standing = standing or self._standing(value, own, layer)
                    layer.fit(standing.callee, standing.binds)
                    run.insert(0, layer)
                    continue
                if standing is not None and run:
                    runs.append((standing, run))
                    value, run = standing.value, []
                standing = None
                value, own = layer.value(value if value is not ABSENT else self._nothing(layer)), True
            except Exception as error:
                if adding and not layer.is_left_out:
                    raise
                left_out[layer] = error
        if standing is not None and run:
            runs.append((standing, run))
            value = standing.value
        return value, runs, left_out

    def _nothing(self, layer: Layer) -> Any:
        """Return ABSENT to a layer that can lie over nothing; refuse the others."""
        if layer.patch.verb == "derive":
            assert layer.patch.target is not None  # only enter has none
            raise missing(self.slot, layer.patch.target, layer.owner)
        return ABSENT

    def _standing(self, base: Any, own: bool, layer: Layer) -> Standing:
        """Return what stands over a base: the one that stands there already, if there is one."""
        for standing, _ in self._runs:
            if standing.base is base:
                return standing
        if not isinstance(self.slot, FunctionSlot):
            check_callable(layer.patch, self.slot, base, layer.owner)
        return Standing(base, self.slot, own)

    def _commit(self, layers: list[Layer], value: Any, runs: list[_Run]) -> None:
        adding = len(layers) > len(self._layers)
        if adding:
            self._put(value, layers)  # first: if the owner refuses it, nothing has changed
        for standing, run in runs:
            standing.point(run)
        for standing, run in [*self._retired, *self._runs]:
            if all(standing is not kept for kept, _ in runs):
                standing.point([layer for layer in run if layer in layers])
        self._layers, self._runs = layers, runs
        if layers:
            _sites[self.slot.key] = self
            originals[self.slot.key] = self.original
        elif _sites.get(self.slot.key) is self:
            del _sites[self.slot.key], originals[self.slot.key]
        if not adding:
            self._put(value, layers)

    def _put(self, value: Any, layers: list[Layer]) -> None:
        there = self.slot.read()
        if there is value:
            return
        if not same(there, self._held):  # somebody patched over us: never write over what is not ours
            if len(layers) > len(self._layers) and value is not self._held:
                problem = (
                    f"{self.slot} holds what somebody else put over an earlier patch, and a new one would not show"
                )
                raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; take theirs off first")
            return
        self._set(value)
        if layers and not same(self.slot.read(), value):
            if self._held is not ABSENT:
                self._set(self._held)
            else:
                with suppress(AttributeError, LookupError):  # it may have kept it elsewhere, as torch modules do
                    self._delete()
            problem = f"{self.slot} does not keep what is put there"
            raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; patch what it is made from")
        self._held = value

    def _set(self, value: Any) -> None:
        if value is not ABSENT:
            self.slot.write(value)
        elif self.slot.read() is not ABSENT:
            self._delete()

    def _delete(self) -> None:
        assert not isinstance(self.slot, FunctionSlot)  # a function always has code
        self.slot.delete()


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the one that has layers, or a new one."""
    with _lock:
        return _sites.get(slot.key) or Site(slot)


def patched_slots() -> list[str]:
    """Return the slots that have layers, in words."""
    with _lock:
        return [str(site.slot) for site in _sites.values()]
