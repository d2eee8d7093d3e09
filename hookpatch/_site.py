"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._guard import check_callable
from hookpatch._layer import Layer
from hookpatch._order import ordered
from hookpatch._slot import ABSENT, AttributeSlot, FunctionSlot, Slot
from hookpatch._trampoline import Swap, Trampoline, as_it_was, pass_through

Ending: TypeAlias = Literal["restored", "dormant", "displaced"]

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
        self._ground()

    def _ground(self) -> None:
        """Take what the slot holds now as the original."""
        self.original: Any = self.slot.read()
        self._held: Any = self.original  # what the slot holds as far as we know: the original, or what we put
        self._standings: list[_Standing] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, the outermost first."""
        return tuple(self._layers)

    def add(self, layer: Layer) -> None:
        """Put a layer on.

        Raises:
            ApplyError, OrderError: it cannot lie there; nothing is changed.
        """
        self._change(lambda layers: ordered([*layers, layer], self.slot))

    def drop(self, layer: Layer) -> Ending:
        """Take a layer off; return what became of the slot.

        Raises:
            Exception: what the owner raised when the slot was set; the layer passes through all the same.
        """
        layer.end()
        self._change(lambda layers: [other for other in layers if other is not layer])
        if self._layers or self.slot.read() is self.original:
            return "restored"
        return "dormant" if layer.wraps else "displaced"

    def refresh(self) -> None:
        """Lay all layers over what the slot holds now: its module was executed anew."""
        with _lock:
            if self.slot.read() is self._held:
                return
            self._ground()
            layers, self._layers = self._layers, []
        self._change(lambda _: layers)

    def _change(self, edit: Callable[[list[Layer]], list[Layer]]) -> None:
        # Factories are foreign code: they run outside the lock, lest they import what another thread is importing
        # while it waits for us. If somebody changed the site meanwhile, once more.
        while True:
            with _lock:
                before = self._layers
                after = edit(before)
            value, runs = self._compute(after)
            with _lock:
                if self._layers is before:
                    self._commit(after, value, runs)
                    return

    def _compute(self, layers: Sequence[Layer]) -> tuple[Any, list[tuple[_Standing, list[Layer]]]]:
        """Return what belongs into the slot, and what each run of call layers is to do."""
        value = self.original if self.original is not ABSENT or not layers else self.slot.inherited()
        own = self.original is not ABSENT
        runs: list[tuple[_Standing, list[Layer]]] = []
        run: list[Layer] = []
        for layer in [*reversed(layers), None]:
            if layer is not None and layer.wraps:
                run.insert(0, layer)
                continue
            if run:
                standing = self._standing(len(runs), value, own, run[0])
                for wrapping in run:
                    wrapping.fit(standing.callee, standing.binds)
                runs.append((standing, run))
                value, run = standing.value, []
            if layer is not None:
                value, own = layer.value(value), True
        return value, runs

    def _standing(self, place: int, base: Any, own: bool, layer: Layer) -> _Standing:
        """Return what stands for the run at a place: the one that stands there, if it stands on the same base."""
        if place < len(self._standings) and self._standings[place].base is base:
            return self._standings[place]
        if not isinstance(self.slot, FunctionSlot):
            check_callable(layer.patch, self.slot, base, layer.owner)
        return _Standing(base, self.slot, own)

    def _commit(self, layers: list[Layer], value: Any, runs: list[tuple[_Standing, list[Layer]]]) -> None:
        adding = len(layers) > len(self._layers)
        if adding:
            self._put(value)  # first: if the owner refuses it, nothing has changed
        for standing, run in runs:
            standing.point(run)
        for standing in self._standings:
            if all(standing is not kept for kept, _ in runs):
                standing.point([])
        self._layers = layers
        if runs or layers:
            self._standings = [standing for standing, _ in runs]
            _sites[self.slot.key] = self
        elif _sites.get(self.slot.key) is self:
            del _sites[self.slot.key]
        if not adding:
            self._put(value)

    def _put(self, value: Any) -> None:
        there = self.slot.read()
        if there is value or there is not self._held:
            return  # somebody patched over us: never write over what is not ours
        if value is ABSENT:
            assert not isinstance(self.slot, FunctionSlot)  # a function always has code
            self.slot.delete()
        else:
            self.slot.write(value)
        self._held = value


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the one that has layers, or a new one."""
    with _lock:
        return _sites.get(slot.key) or Site(slot)


def own_beneath(slot: Slot) -> Any:
    """Return the owner's own value without our layers, or ABSENT."""
    with _lock:
        site = _sites.get(slot.key)
    return slot.read() if site is None else site.original


def beneath(slot: Slot) -> Any:
    """Return what a user of the slot would get without our layers, or ABSENT."""
    own = own_beneath(slot)
    return own if own is not ABSENT else slot.inherited()


def patched_slots() -> list[str]:
    """Return the slots that have layers, in words."""
    with _lock:
        return [str(site.slot) for site in _sites.values()]


@final
class _Standing:
    """What stands in a slot for a run of call layers. Lives as long as its site; a leaked one passes through.

    Attributes:
        base: what it stands over, as it lay in the slot.
        value: what to put into the slot.
        callee: what is called in the end.
        binds: True when its first argument is the object or class that it is called on.
    """

    def __init__(self, base: Any, slot: Slot, own: bool) -> None:
        self.base: Final = base
        self._inner: dict[Layer, Trampoline] = {}
        self._top: Trampoline | None = None
        self.callee: Any = base.__func__ if isinstance(base, (staticmethod, classmethod)) else base
        self.binds = binds(slot, base)
        if isinstance(slot, FunctionSlot):
            self.callee = as_it_was(slot.owner, base)
            self._bottom: Callable[..., Any] = self.callee
            self._top = Trampoline(self.callee, self._bottom, self.binds)
            self.value: Any = Swap(self.callee, self._top.function)
        elif isinstance(self.callee, FunctionType):
            self._bottom = self.callee if own else _inherited(slot, self.callee, base)
            self._top = Trampoline(self.callee, self._bottom, self.binds)
            self.value = self._top.function if base is self.callee else type(base)(self._top.function)
        else:
            from hookpatch._proxy import Proxy  # wrapt is heavy, and most patches are on functions

            self.value = Proxy(base, _reference(slot))

    def point(self, layers: list[Layer]) -> None:
        """From now on run these layers, the outermost first."""
        if self._top is None:
            self.value.point(tuple(layers))
            return
        below = self._bottom
        for layer in reversed(layers[1:]):
            # One for each inner layer, kept as long as the layer: an outer wrapper may hold it in a variable.
            trampoline = self._inner.get(layer) or Trampoline(self.callee, self._bottom, self.binds)
            self._inner[layer] = trampoline
            trampoline.point(layer.call, below)
            below = trampoline.function
        self._top.point(layers[0].call if layers else pass_through, below)
        for layer in self._inner.keys() - set(layers[1:]):
            self._inner[layer].point(layer.call, below)
            if layer not in layers:
                del self._inner[layer]


def binds(slot: Slot, held: Any) -> bool:
    """Tell whether what lies in a slot gets the object or class that it is called on as its first argument."""
    if isinstance(slot, FunctionSlot):
        return slot.binds
    return slot.in_class is not None and hasattr(type(held), "__get__") and not isinstance(held, (staticmethod, type))


def _inherited(slot: Slot, like: FunctionType, base: Any) -> Callable[..., Any]:
    """Return a function that calls what the owner inherits, looked up at each call: its base may get patched too."""
    owner = slot.in_class
    if owner is None or not isinstance(slot, AttributeSlot):
        return like
    name = slot.name
    if isinstance(base, staticmethod):

        def below(*args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, owner), name)(*args, **kwargs)
    else:

        def below(*args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, args[0]), name)(*args[1:], **kwargs)

    below.__name__, below.__qualname__ = like.__name__, like.__qualname__
    below.__module__, below.__doc__ = like.__module__, like.__doc__
    return below


def _reference(slot: Slot) -> tuple[str, str] | None:
    """Return the module and path by which pickle finds what stands in a slot, None when there is none."""
    if not isinstance(slot, AttributeSlot):
        return None
    if slot.in_class is not None:
        return slot.in_class.__module__, f"{slot.in_class.__qualname__}.{slot.name}"
    module = getattr(slot.owner, "__name__", None)
    return (module, slot.name) if isinstance(module, str) and hasattr(slot.owner, "__spec__") else None
