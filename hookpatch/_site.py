"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from time import monotonic
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

from hookpatch._beneath import began, beneath_proxies, originals
from hookpatch._function_slot import FunctionSlot
from hookpatch._guard import check_callable
from hookpatch._item_slot import ItemSlot
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, is_recognisable, weakly
from hookpatch._order import Pile, place
from hookpatch._resolve import missing
from hookpatch._slot import ABSENT, Slot, inner, put, same
from hookpatch._standing import Standing, bear, is_ours
from hookpatch._target import a_kind
from hookpatch._trampoline import can_stand_in
from hookpatch._turn import Turn
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "unlinked", "dormant", "displaced"]
_Edit: TypeAlias = Callable[[Pile], Pile]
_Run: TypeAlias = tuple[Standing, list[Layer]]  # call layers that lie together, and what stands for them

_lock: Final = RLock()  # of the three below, held for a look-up at most
_sites: Final[WeakValueDictionary[tuple[Any, ...], Site]] = WeakValueDictionary()
# Those that cannot put what they should, since something of somebody else's is there.
_blocked: Final[set[Site]] = set()
_leftovers: Final[WeakKeyDictionary[Leftover, None]] = WeakKeyDictionary()
_unborne: Final[set[Leftover]] = set()  # those that what we had put there cannot bear


@dataclass(slots=True)
class _Plan:
    """What is to become of a slot.

    Attributes:
        value: what belongs into it.
        runs: what each run of call layers is to do.
        left_out: which layers cannot lie there, and why.
        one: the layer that comes or goes when no other but those of its run is touched.
    """

    value: Any = ABSENT
    runs: list[_Run] = field(default_factory=list)
    left_out: dict[Layer, Exception] = field(default_factory=dict)
    one: Layer | None = None


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
        self._turn = Turn()
        self._pile = Pile()
        self._retired: Sequence[ReferenceType[Standing]] = ()  # what stood there, and is held by somebody
        self._has_left_out = False
        self._ending: Ending = "restored"
        # What _ground finds; other threads may look before that.
        self.original: Any = ABSENT
        self._base: Any = ABSENT
        self._held: Any = ABSENT
        self._puts: deque[Callable[[], object]] = deque()

    def _ground(self) -> None:
        """Take what the slot holds now as the original."""
        if isinstance(self.slot, ItemSlot):
            self.slot.forget()
        held: Any = self.slot.read()
        self.original = self._base = self._held = held  # _held: what we put, or the original, as far as we know
        if held is ABSENT and not isinstance(self.slot.owner, ModuleType):
            self._base = self.slot.inherited()  # now: later on some owners would give what we put there
        if isinstance(self.slot, FunctionSlot):
            self._base = self.slot.copy_with(held)
        # Somebody put there what belongs there anyway: he may have saved ours, and put it back whenever he likes.
        self._was_taken = False
        # What we have put there, the last few: whoever wrapped one of them may put it back.
        self._puts = deque(maxlen=32)
        self._standings: list[Standing] = []  # what stands there, one for each run of call layers
        self._of: dict[Layer, Standing] = {}

    @property
    def _my_turn(self) -> Turn:
        with _lock:  # not while a child is forked: that waits for all turns to end
            return self._turn

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, the outermost first."""
        return tuple(self._pile.layers)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What stands in the slot for runs of call layers, or did and may be held by somebody."""
        return tuple(self._known)

    @property
    def stands(self) -> Any:
        """What stands in the slot because of its layers, as far as we know."""
        return self._held

    @property
    def stood(self) -> list[Any]:
        """What stands in the slot, stood there lately, or is inherited there: as far as we know, as it lay there."""
        put = [weak() for weak in tuple(self._puts)]  # a copy: another thread may change the site
        return [value for value in (self.original, self._base, *put) if value is not None]

    def add(self, layer: Layer, note: Callable[[], None]) -> None:
        """Put a layer on, unless it has ended by now.

        Args:
            layer: the layer.
            note: called when it lies there, before anybody else changes the site.

        Raises:
            ApplyError, OrderError: it cannot lie there; nothing is changed.
        """

        def edit(pile: Pile) -> Pile:
            return pile if layer.ended else pile.with_one_more(layer, self.slot)

        self._change(edit, lambda: note() if layer in self._pile.layers else None, layer, adding=True)

    def drop(self, layer: Layer, note: Callable[[Ending], None], given_back: Callable[[], None]) -> Ending:
        """Take a layer off; return what became of the slot.

        Another layer that cannot lie over what is left is left out, and told so.

        Args:
            layer: the layer.
            note: called with what became of the slot, before anybody else changes the site.
            given_back: called later on, if somebody else's value keeps the slot from being restored now and ours
                comes to light again.

        Raises:
            Exception: what the owner raised when the slot was set; the layer passes through all the same.
        """
        layer.end()
        ending: Ending = "restored"

        def end() -> None:
            nonlocal ending
            if not self._pile.layers and self._ending != "restored":
                ending = "displaced" if self._ending == "dormant" and not layer.wraps else self._ending
            note(ending)
            if ending != "restored" or (not self._pile.layers and self._was_taken):
                self._leave(given_back)

        self._change(lambda pile: pile.with_one_less(layer), end, layer)
        return ending

    def refresh(self) -> None:
        """Lay all layers over what the slot holds now: its module was executed anew."""
        turn = self._my_turn
        if not turn.take():
            return turn.later(self.refresh)
        try:
            if not self._pile.layers or same(self.slot.read(), self._held):
                return None
            self._retire(self._standings)  # functions taken before the reload stay patched as long as we are
            self._ground()
            self._pile = self._pile.again()  # another one: whoever is computing has to do it anew
            began(self.slot, self.original)
        finally:
            turn.end()
        return self._change(Pile.again)

    def stir(self, left: Sequence[Leftover]) -> None:
        """Look whether theirs has gone, because some value died: anywhere, in any thread, so never wait for a turn.

        Args:
            left: the slot's leftovers.
        """
        turn = self._turn
        if turn.take(wait=False):
            try:
                self._settle(left)
            finally:
                turn.end()

    def _settle(self, left: Sequence[Leftover]) -> None:
        """Put what belongs into the slot, if somebody else's value was in the way and has gone."""
        # What the owner raises is nothing to who happens to look: the next look tries again.
        for leftover in left:
            with suppress(Exception):
                if leftover.is_at(self.slot) and not self._stands_there() and leftover.look():
                    _forget(leftover)
        if self._pile.layers:
            with suppress(Exception):
                self._put(self._wanted, self._pile.layers)

    def _change(
        self, edit: _Edit, note: Callable[[], None] = lambda: None, one: Layer | None = None, adding: bool = False
    ) -> None:
        # Factories are foreign code: they run outside the lock, lest they import what another thread is importing
        # while it waits for us. If somebody changed the site meanwhile, once more.
        while True:
            turn = self._my_turn
            if not turn.take():
                return turn.later(partial(self._change, edit, note, one))
            try:
                if not self._pile.layers:
                    if _leftovers:
                        self._settle(leftovers())
                    self._ground()
                before, known = self._pile, self._known
            finally:
                turn.end()
            try:
                after = edit(before)
                plan = self._at_a_glance(before, after, one) or self._compute(after.layers, adding, known)
            except Exception:
                if self._pile is before:
                    raise
                continue  # in the midst of somebody's change, things may not fit together
            turn = self._my_turn
            turn.take()
            try:
                if self._pile is before and not self._was_set():
                    self._commit(after, plan)
                    note()
                    says = self._leave_out(after.layers, plan.left_out)
                    break
            finally:
                turn.end()
        if says:
            with ExitStack() as saying:  # all is said, whatever a warning raises
                for say in says:
                    saying.callback(say)
        return None

    def _leave_out(self, layers: Sequence[Layer], left_out: Mapping[Layer, Exception]) -> list[Callable[[], None]]:
        """Note which layers cannot lie here; return what is to be said of it when nothing of ours is locked."""
        if not (left_out or self._has_left_out):
            return []
        self._has_left_out = bool(left_out)
        return [say for layer in layers if (say := layer.leave_out(left_out.get(layer))) is not None]

    def _was_set(self) -> bool:
        """Tell whether the slot, with no layers on it yet, got another original while a factory ran: by a reload."""
        if self._pile.layers:
            return False
        now = self.slot.read()
        return not same(now, self._held) and same(now, self.slot.read())

    def _at_a_glance(self, before: Pile, after: Pile, layer: Layer | None) -> _Plan | None:
        """Return what is to become of it when one layer comes or goes and only its neighbours need be looked at.

        So the thousandth takes as long as the first. None: more may change than that.
        """
        if not after.layers:
            return _Plan(self.original)
        if layer is None or self._retired or self._has_left_out or (layer.wraps and not before.layers):
            return None
        less = len(before.layers) > len(after.layers)
        at = (before if less else after).place(layer)
        if at is None:
            return None
        outside, inside = after.layers[max(at - 1, 0) : at], after.layers[at + (not less) :][:1]
        if layer.wraps:
            return self._in_its_run(layer, [layer] if less else [*outside, *inside], less)
        if layer.patch.verb != "replace" or isinstance(self.slot, FunctionSlot):
            return None
        if outside:  # beneath another value nothing shows
            return _Plan(self._wanted, one=layer) if outside[0].patch.verb == "replace" else None
        if not less:
            return _Plan(layer.value(ABSENT, self.slot), one=layer)
        if not inside:
            return _Plan(self.original, one=layer)
        if inside[0] in self._of:
            return _Plan(self._of[inside[0]].value, one=layer)
        return _Plan(inside[0].value(ABSENT, self.slot), one=layer) if inside[0].patch.verb == "replace" else None

    def _in_its_run(self, layer: Layer, others: Sequence[Layer], less: bool) -> _Plan | None:
        """Return what is to become of it when a call layer comes or goes beside others around the same thing."""
        standing = next(filter(None, map(self._of.get, others)), None)
        if standing is None or (less and len(standing.layers) == 1):
            return None
        at = place(standing.layers, layer)
        if less:
            run = [*standing.layers[:at], *standing.layers[at + 1 :]]
        else:
            layer.fit(standing.callee, standing.binds)
            run = [*standing.layers[:at], layer, *standing.layers[at:]]
        return _Plan(self._wanted, [(standing, run)], one=layer)

    def _compute(self, layers: Sequence[Layer], adding: bool, known: Sequence[Standing]) -> _Plan:
        """Return what is to become of the slot and of all layers.

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
                    standing = standing or self._standing(value, own, layer, known)
                    layer.fit(standing.callee, standing.binds)
                    run.insert(0, layer)
                    continue
                if standing is not None and run:
                    standing = self._settled(standing, run, layers, own, known)
                    runs.append((standing, run))
                    value, run = standing.seen, []
                standing = None
                over = layer.value(value if value is not ABSENT else self._nothing(layer), self.slot)
                value, own = self._callable(over, layer) if isinstance(self.slot, FunctionSlot) else over, True
            except Exception as error:
                if adding and not layer.is_left_out:
                    raise
                left_out[layer] = error
        calls = isinstance(self.slot, FunctionSlot) and layers and value is not self._base
        if calls and not run:
            # A value cannot stand in a function: it is called there.
            standing = self._standing(value, own, layers[0], known)
        if standing is not None and (run or calls):
            standing = self._settled(standing, run, layers, own, known)
            runs.append((standing, run))
            value = standing.value
        return _Plan(self.original if value is self._base else value, runs, left_out)

    def _callable(self, value: Any, layer: Layer) -> Any:
        """Return what a value puts into a function: what is called instead of it."""
        called = inner(value)
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

    def _standing(self, base: Any, own: bool, layer: Layer, known: Sequence[Standing]) -> Standing:
        """Return what stands over a base: the one that stands there already, if there is one."""
        for standing in known:
            if standing.base is base:
                return standing
        if not isinstance(self.slot, FunctionSlot):
            check_callable(layer.patch, self.slot, base, layer.owner)
        return Standing(base, self.slot, own)

    @property
    def _known(self) -> list[Standing]:
        """What stands in the slot, or did and may be held by somebody."""
        if not self._retired:
            return self._standings
        return [*self._standings, *(one for one in (weak() for weak in self._retired) if one is not None)]

    def _settled(
        self, standing: Standing, run: list[Layer], layers: Sequence[Layer], own: bool, known: Sequence[Standing]
    ) -> Standing:
        """Return what stands for a run: one that stood for it before, if it did for no other layer that is still there.

        No layer moves from one to another: a call on its way through both would run it twice, or not at all.
        """
        there, came_before = set(layers), set(run).intersection(self._pile.layers)
        for one in known:
            if one.base is standing.base and there.intersection(one.layers) == came_before:
                return one
        is_new = all(one is not standing for one in known)
        return standing if is_new else Standing(standing.base, self.slot, own)

    def _commit(self, pile: Pile, plan: _Plan) -> None:
        layers, adding = pile.layers, len(pile.layers) > len(self._pile.layers)
        runs = plan.runs
        if adding:
            known = self._known
            for standing, run in runs:
                if all(standing is not one for one in known):
                    standing.point(run)  # before anybody can call it
            runs = [(standing, run) for standing, run in runs if standing.layers is not run]
            if not self._pile.layers:
                began(self.slot, self.original)
            try:
                self._put(plan.value, layers)  # first: if the owner refuses it, nothing has changed
            except BaseException:
                if not self._pile.layers:
                    originals.pop(self.slot.key, None)
                raise
        for standing, run in runs:
            standing.point(run)
        if plan.one is None:
            self._replace([standing for standing, _ in plan.runs])
        elif plan.runs and adding:
            self._of[plan.one] = plan.runs[0][0]
        elif plan.runs:
            del self._of[plan.one]
        self._pile, self._wanted = pile, plan.value
        try:
            if not adding:
                self._put(plan.value, layers)
        except BaseException:
            if layers:
                _blocked.add(self)  # the next look tries again
            raise
        finally:
            if not layers:
                originals.pop(self.slot.key, None)
                _blocked.discard(self)
        if not layers:
            self._ending = self._what_became()
            self._held = self.original

    def _replace(self, standings: list[Standing]) -> None:
        """Have these stand there, and the others no more."""
        self._retire([one for one in self._known if one not in standings])
        if self._retired:
            self._bring_back(standings)
        self._standings, self._of = standings, {layer: one for one in standings for layer in one.layers}

    def _put(self, value: Any, layers: Sequence[Layer]) -> None:
        there = self.slot.read()
        if there is value:
            self._was_taken = self._was_taken or not same(self._held, value)
            self._held = value
            return
        place = self.slot if self._is_ours(there) else beneath_proxies(there, self._is_ours)
        if place is None or (value is ABSENT and place is not self.slot):
            # Somebody patched over us: never write over what is not ours.
            if len(layers) > len(self._pile.layers) and value is not self._held:
                problem = (
                    f"{self.slot} holds what somebody else put over an earlier patch, and a new one would not show"
                )
                raise TargetRefused(layers[0].patch.address, layers[0].owner, f"{problem}; take theirs off first")
            _blocked.add(self)
            return
        is_there = place is not self.slot and place.read() is value  # beneath their proxy: this is not the first look
        if not is_there:
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
        if layers and not is_there and is_recognisable(value):
            self._puts.append(weakly(value))

    def _stands_there(self) -> bool:
        """Tell whether the layers have put there what lies there, be it a value that an earlier end is waiting for."""
        return bool(self._pile.layers) and self._held is not self.original and self.slot.read() is self._held

    def _is_ours(self, value: Any) -> bool:
        """Tell whether a value is the original or one that we have put there."""
        if same(value, self._held) or any(weak() is value for weak in self._puts if value is not None):
            return True
        # Or what stands elsewhere for the same thing, copied from there when a module was reloaded.
        over = getattr(value, "__wrapped__", ABSENT) if is_ours(value) else ABSENT
        return over is not ABSENT and over is self.original

    def _retire(self, standings: Sequence[Standing]) -> None:
        """Keep pointing what stood in the slot: somebody may hold it still. It is kept by itself, not by us."""
        for standing in standings:
            standing.point([layer for layer in standing.layers if not layer.ended])
        if standings and self._retired:
            self._bring_back(standings)
        for standing in standings:
            if standing.layers:
                standing.bear(standing)
                self._retired = [*self._retired, ref(standing)]

    def _bring_back(self, standings: Sequence[Standing]) -> None:
        """Have these not keep themselves any more, and forget those that nobody held."""
        retired = [(weak, one) for weak, one in ((weak, weak()) for weak in self._retired) if one is not None]
        self._retired = [weak for weak, one in retired if one not in standings]
        for _, one in retired:
            if one in standings:
                one.let_go(one)

    def _what_became(self) -> Ending:
        """Return what became of the slot when the last layer went."""
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
        ours = [value for value in (weak() for weak in self._puts) if value is not None]
        borne = [bear(value, leftover) for value in ours]
        if not all(borne):
            leftover.hold_owner_weakly()
            _unborne.add(leftover)


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the one that is known, or a new one."""
    with _lock:
        site = _sites.get(slot.key)
        if site is None:
            site = _sites[slot.key] = Site(slot)
        return site


def _before_fork() -> None:
    # A child gets the slots as they are, and only this thread: let no other be in the midst of a change. One that runs
    # its owner's code may wait for this very thread, so do not wait long.
    _lock.acquire()
    end = monotonic() + _PATIENCE
    _quiet.update(site for site in list(_sites.values()) if site._turn.lock.acquire(timeout=max(0, end - monotonic())))


def _after_fork() -> None:
    while _quiet:
        _quiet.pop()._turn.lock.release()
    _lock.release()


def _in_child() -> None:
    for site in list(_sites.values()):
        if site not in _quiet:
            site._turn = Turn()
    _after_fork()


_PATIENCE: Final = 1.0  # seconds
_quiet: Final[set[Site]] = set()  # whose turn the forking thread has

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)


def over(original: Any) -> list[Site]:
    """Return the sites whose slots held an object before any layer."""
    return [site for site in patched() if site.original is original]


def leftovers() -> list[Leftover]:
    """Return what waits for somebody else's value to go."""
    return [one for one in (weak() for weak in _leftovers.keyrefs()) if one is not None]


def _forget(leftover: Leftover) -> None:
    _leftovers.pop(leftover, None)
    _unborne.discard(leftover)


def settle() -> None:
    """Give back every slot that somebody else's value was in the way of, and is no longer."""
    if not (_blocked or _leftovers):
        return
    waiting: dict[Site, list[Leftover]] = {site: [] for site in list(_blocked)}
    for leftover in leftovers():
        if (slot := leftover.slot) is None:
            _forget(leftover)  # its owner is gone
        else:
            waiting.setdefault(site_at(slot), []).append(leftover)
    for site, left in waiting.items():
        site.stir(left)  # not if another thread has its turn: that one may be waiting for this one


def _stir(leftover: Leftover) -> None:
    # Called by the collector, anywhere: a lock that this thread holds already is no reason to wait.
    slot = leftover.slot
    if slot is not None and _lock.acquire(blocking=False):
        try:
            site = site_at(slot)
        finally:
            _lock.release()
        site.stir([leftover])


def patched() -> list[Site]:
    """Return the sites that have layers."""
    with _lock:
        sites = list(_sites.values())
    return [site for site in sites if site.layers]


def patched_slots() -> list[str]:
    """Return the slots that have layers, in words."""
    return [str(site.slot) for site in patched()]
