"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from threading import RLock
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final
from weakref import WeakKeyDictionary, WeakValueDictionary

from hookpatch._guard import check_callable
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, is_recognisable, weakly
from hookpatch._order import ordered
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, FunctionSlot, Slot, beneath_proxies, originals, put, same
from hookpatch._standing import Standing
from hookpatch._target import a_kind
from hookpatch._trampoline import can_stand_in
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "unlinked", "dormant", "displaced"]
_Edit: TypeAlias = Callable[[list[Layer]], list[Layer]]
_Run: TypeAlias = tuple[Standing, list[Layer]]  # call layers that lie together, and what stands for them

_lock: Final = RLock()  # of the three below, held for a look-up at most
_sites: Final[WeakValueDictionary[tuple[Any, ...], Site]] = WeakValueDictionary()
_blocked: Final[set[Site]] = (
    set()
)  # those that cannot put what they should, since something of somebody else's is there
_leftovers: Final[WeakKeyDictionary[Leftover, None]] = WeakKeyDictionary()
_unborne: Final[set[Leftover]] = set()  # those that what we had put there cannot bear


@final
class Site:
    """One slot with the owner's own value or nothing. Lives while it has layers.

    Attributes:
        slot: the place.
        original: the owner's own value before any layer, or ABSENT.
    """

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        # One for each site, and not held while a factory runs: reading and setting the slot may run its owner's code.
        self._turn = RLock()
        self._inside = False  # this thread has its turn already: we are called by a finalizer, in the midst of a change
        self._queue: list[_Edit] = []
        self._layers: list[Layer] = []
        self._retired: WeakKeyDictionary[Standing, list[Layer]] = WeakKeyDictionary()
        self._has_left_out = False
        self._ending: Ending = "restored"
        self._bearers: list[Standing] = []

    def _ground(self) -> None:
        """Take what the slot holds now as the original."""
        self.original: Any = self.slot.read()
        self._base: Any = self.original
        if self.original is ABSENT and not isinstance(self.slot.owner, ModuleType):
            self._base = self.slot.inherited()  # now: later on some owners would give what we put there
        if isinstance(self.slot, FunctionSlot):
            self._base = self.slot.copy_with(self.original)
        self._held: Any = self.original  # what the slot holds as far as we know: the original, or what we put
        # What we have put there, the last few: whoever wrapped one of them may put it back.
        self._puts: deque[Callable[[], object]] = deque(maxlen=32)
        self._runs: list[_Run] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, the outermost first."""
        return tuple(self._layers)

    @property
    def stands(self) -> Any:
        """What stands in the slot because of its layers, as far as we know."""
        return self._held

    def add(self, layer: Layer) -> None:
        """Put a layer on.

        Raises:
            ApplyError, OrderError: it cannot lie there; nothing is changed.
        """
        self._change(lambda layers: ordered([*layers, layer], self.slot), adding=True)

    def drop(self, layer: Layer, given_back: Callable[[], None] = lambda: None) -> Ending:
        """Take a layer off; return what became of the slot.

        Another layer that cannot lie over what is left is left out, and told so.

        Args:
            layer: the layer.
            given_back: called later on, if somebody else's value keeps the slot from being restored now and ours
                comes to light again.

        Raises:
            Exception: what the owner raised when the slot was set; the layer passes through all the same.
        """
        layer.end()
        self._change(lambda layers: [other for other in layers if other is not layer])
        with self._turn:
            if self._layers or self._ending == "restored":
                return "restored"
            if self._ending == "dormant" and not layer.wraps:
                self._ending = "displaced"
            self._leave(given_back)
            return self._ending

    def refresh(self) -> None:
        """Lay all layers over what the slot holds now: its module was executed anew."""
        with self._turn:
            if not self._layers or same(self.slot.read(), self._held):
                return
            self._retire(self._runs)  # functions taken before the reload stay patched as long as we are
            self._ground()
            layers, self._layers = self._layers, []
        self._change(lambda _: [layer for layer in layers if not layer.ended])

    def settle(self) -> None:
        """Put what belongs into the slot, if somebody else's value was in the way and has gone."""
        with self._turn:
            if self._inside or not (_blocked or _leftovers):
                return
            self._inside = True
            try:
                for leftover in [one for one in leftovers() if one.slot.key == self.slot.key]:
                    if leftover.look():
                        _leftovers.pop(leftover, None)
                        _unborne.discard(leftover)
                if self._layers:
                    self._put(self._wanted, self._layers)
            finally:
                self._inside = False

    def stir(self) -> None:
        """Look whether theirs has gone, because some value died: anywhere, in any thread, so never wait for a turn."""
        if self._turn.acquire(blocking=False):
            try:
                self.settle()
            finally:
                self._turn.release()

    def _change(self, edit: _Edit, adding: bool = False) -> None:
        # Factories are foreign code: they run outside the lock, lest they import what another thread is importing
        # while it waits for us. If somebody changed the site meanwhile, once more.
        while True:
            with self._turn:
                if self._inside:
                    self._queue.append(edit)
                    return
                if not self._layers:
                    self.settle()
                    self._ground()
                before = self._layers
            after = edit(before)
            value, runs, left_out = self._compute(after, adding)
            with self._turn:
                if self._layers is before:
                    self._inside = True
                    try:
                        self._commit(after, value, runs)
                    finally:
                        self._inside = False
                    break
        while self._queue:
            self._change(self._queue.pop(0))
        if left_out or self._has_left_out:
            with ExitStack() as telling:  # all are told, whatever one of them raises
                for layer in after:
                    telling.callback(layer.leave_out, left_out.get(layer))
        self._has_left_out = bool(left_out)

    def _compute(self, layers: Sequence[Layer], adding: bool) -> tuple[Any, list[_Run], dict[Layer, Exception]]:
        """Return what belongs into the slot, what each run of call layers is to do, and which layers cannot lie there.

        Raises:
            Exception: what keeps a layer from lying there, when one is being added: it must not put another one out.
        """
        if (
            self._base is ABSENT
            and isinstance(self.slot.owner, ModuleType)
            and layers
            and layers[-1].patch.verb != "replace"
        ):
            self._base = self.slot.inherited()  # of a module, and only for what lies over it: a lazy name may wake
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
                    value, run = standing.seen, []
                standing = None
                over = layer.value(value if value is not ABSENT else self._nothing(layer))
                value, own = self._callable(over, layer) if isinstance(self.slot, FunctionSlot) else over, True
            except Exception as error:
                if adding and not layer.is_left_out:
                    raise
                left_out[layer] = error
        calls = isinstance(self.slot, FunctionSlot) and layers and value is not self._base
        if calls and not run:
            standing = self._standing(value, own, layers[0])  # a value cannot stand in a function: it is called there
        if standing is not None and (run or calls):
            runs.append((standing, run))
            value = standing.value
        return (self.original if value is self._base else value), runs, left_out

    def _callable(self, value: Any, layer: Layer) -> Any:
        """Return what a value puts into a function: what is called instead of it."""
        called = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if callable(called) and can_stand_in(self._base, called):
            return called
        what = "something of another kind (async, generator)" if callable(called) else a_kind(value)
        problem = f"reach='everywhere' changes the function inside: it is to call something else, not {what}"
        raise TargetRefused(layer.patch.address, layer.owner, f"{problem}; take reach='slot'")

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
        kept = {id(standing) for standing, _ in runs}
        gone = [(standing, run) for standing, run in self._runs if id(standing) not in kept]
        if self._retired:
            gone += self._retired.items()
            self._retired.clear()
        for standing, run in gone:
            standing.point([layer for layer in run if layer in layers])
        if layers and gone:
            self._retire(gone)
        self._layers, self._runs, self._wanted = layers, runs, value
        if layers:
            originals[self.slot.key] = self.original
        else:
            originals.pop(self.slot.key, None)
        if not adding:
            self._put(value, layers)
        if not layers:
            self._ending = self._what_became()
            self._bearers = [standing for standing, _ in gone] if self._ending != "restored" else []
            self._held = self.original

    def _put(self, value: Any, layers: Sequence[Layer]) -> None:
        there = self.slot.read()
        if there is value:
            self._held = value
            return
        place = self.slot if self._is_ours(there) else beneath_proxies(there, self._is_ours)
        if place is None or (value is ABSENT and place is not self.slot):
            # Somebody patched over us: never write over what is not ours.
            if len(layers) > len(self._layers) and value is not self._held:
                problem = (
                    f"{self.slot} holds what somebody else put over an earlier patch, and a new one would not show"
                )
                raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; take theirs off first")
            _blocked.add(self)
            return
        put(place, value)
        if layers and not same(place.read(), value):
            if self._held is not ABSENT:
                put(place, self._held)
            else:
                with suppress(AttributeError, LookupError):  # it may have kept it elsewhere, as torch modules do
                    put(place, ABSENT, unseen=True)
            problem = f"{self.slot} does not keep what is put there"
            raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; patch what it is made from")
        self._held = value
        _blocked.discard(self) if place is self.slot else _blocked.add(self)
        if layers and is_recognisable(value):
            self._puts.append(weakly(value))

    def _is_ours(self, value: Any) -> bool:
        """Tell whether a value is the original or one that we have put there."""
        return same(value, self._held) or any(weak() is value for weak in self._puts if value is not None)

    def _retire(self, runs: Sequence[_Run]) -> None:
        """Keep pointing what stood in the slot: somebody may hold it still. It is kept by itself, not by us."""
        for standing, run in runs:
            if left := [layer for layer in run if not layer.ended]:
                standing.bear(standing)
                self._retired[standing] = left

    def _what_became(self) -> Ending:
        """Return what became of the slot when the last layer went."""
        _blocked.discard(self)
        there = self.slot.read()
        if same(there, self.original):
            return "restored"
        if beneath_proxies(there, lambda value: value is self.original) is not None:
            return "unlinked"
        return "displaced" if there is ABSENT else "dormant"

    def _leave(self, given_back: Callable[[], None]) -> None:
        """Give the slot back later on, when theirs has gone and ours comes to light again."""
        leftover = Leftover(self.slot, self._puts, self.original, given_back, _stir)
        if leftover.look():
            return
        _leftovers[leftover] = None
        for standing in self._bearers:
            standing.bear(leftover)
        if not self._bearers:
            _unborne.add(leftover)
        self._bearers = []


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the one that is known, or a new one."""
    with _lock:
        site = _sites.get(slot.key)
        if site is None:
            site = _sites[slot.key] = Site(slot)
        return site


def _reborn() -> None:
    """Take new locks in a forked child: whoever held one in the parent is not here."""
    for site in _sites.values():
        site._turn, site._inside = RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    os.register_at_fork(after_in_child=_reborn)


def over(original: Any) -> list[Site]:
    """Return the sites whose slots held an object before any layer."""
    with _lock:
        sites = list(_sites.values())
    return [site for site in sites if site.layers and site.original is original]


def leftovers() -> list[Leftover]:
    """Return what waits for somebody else's value to go."""
    return [one for one in (weak() for weak in _leftovers.keyrefs()) if one is not None]


def settle() -> None:
    """Give back every slot that somebody else's value was in the way of, and is no longer."""
    if _blocked or _leftovers:
        for site in {*_blocked, *(site_at(leftover.slot) for leftover in leftovers())}:
            site.settle()


def _stir(leftover: Leftover) -> None:
    # Called by the collector, anywhere: a lock that this thread holds already is no reason to wait.
    if _lock.acquire(blocking=False):
        try:
            site = site_at(leftover.slot)
        finally:
            _lock.release()
        site.stir()


def patched_slots() -> list[str]:
    """Return the slots that have layers, in words."""
    with _lock:
        sites = list(_sites.values())
    return [str(site.slot) for site in sites if site.layers]
