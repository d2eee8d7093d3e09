"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from threading import RLock
from time import monotonic
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, ref

from hookpatch._beneath import began, beneath_proxies, originals
from hookpatch._function_slot import FunctionSlot
from hookpatch._item_slot import ItemSlot
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, is_recognisable, weakly
from hookpatch._order import Pile
from hookpatch._outcome import Ground, Outcome
from hookpatch._slot import ABSENT, Slot, put, same
from hookpatch._standing import Standing, bear, is_ours
from hookpatch._turn import Turn
from hookpatch.errors import TargetRefused

Ending: TypeAlias = Literal["restored", "unlinked", "dormant", "displaced"]
_Edit: TypeAlias = Callable[[Pile], Pile]

_lock: Final = RLock()  # of the three below, held for a look-up at most
_sites: Final[WeakValueDictionary[tuple[Any, ...], Site]] = WeakValueDictionary()
# Those that cannot put what they should, since something of somebody else's is there.
_blocked: Final[set[Site]] = set()
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
        self._turn = Turn()
        self._pile = Pile()
        self._retired: Sequence[ReferenceType[Standing]] = ()  # what stood there, and is held by somebody
        self._has_left_out = False
        self._ending: Ending = "restored"
        # What _ground finds; other threads may look before that.
        self.original: Any = ABSENT
        self._base: Any = ABSENT
        self._wanted: Any = ABSENT
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
                before = self._pile
                ground = Ground(self.slot, self.original, self._base, before, self._wanted, self._of, self._known)
            finally:
                turn.end()
            try:
                after = edit(before)
                outcome = self._outcome(ground, after, one, adding)
            except Exception:
                if self._pile is before:
                    raise
                continue  # in the midst of somebody's change, things may not fit together
            turn = self._my_turn
            turn.take()
            try:
                if self._pile is before and not self._was_set():
                    self._commit(after, outcome)
                    note()
                    says = self._leave_out(after.layers, outcome.left_out)
                    break
            finally:
                turn.end()
        if says:
            with ExitStack() as saying:  # all is said, whatever a warning raises
                for say in says:
                    saying.callback(say)
        return None

    def _outcome(self, ground: Ground, after: Pile, layer: Layer | None, adding: bool) -> Outcome:
        """Return what is to become of the slot when one layer comes or goes, or all are laid anew."""
        if not after.layers:
            return Outcome(self.original)
        if layer is not None and not (self._retired or self._has_left_out):
            outcome = ground.beside(after, layer)
            if outcome is not None:
                return outcome
        is_of_module = isinstance(self.slot.owner, ModuleType)
        if is_of_module and ground.base is ABSENT and after.layers[-1].patch.verb != "replace":
            ground.base = self._base = self.slot.inherited()  # only for what lies over it: a lazy name may wake
        return ground.under(after.layers, adding)

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

    @property
    def _known(self) -> list[Standing]:
        """What stands in the slot, or did and may be held by somebody."""
        if not self._retired:
            return self._standings
        return [*self._standings, *(one for one in (weak() for weak in self._retired) if one is not None)]

    def _commit(self, pile: Pile, outcome: Outcome) -> None:
        layers, adding = pile.layers, len(pile.layers) > len(self._pile.layers)
        runs = outcome.runs
        if adding:
            known = self._known
            for standing, run in runs:
                if all(standing is not one for one in known):
                    standing.point(run)  # before anybody can call it
            runs = [(standing, run) for standing, run in runs if standing.layers is not run]
            if not self._pile.layers:
                began(self.slot, self.original)
            try:
                self._put(outcome.value, layers)  # first: if the owner refuses it, nothing has changed
            except BaseException:
                if not self._pile.layers:
                    originals.pop(self.slot.key, None)
                raise
        for standing, run in runs:
            standing.point(run)
        if outcome.one is None:
            self._replace([standing for standing, _ in outcome.runs])
        elif outcome.runs and adding:
            self._of[outcome.one] = outcome.runs[0][0]
        elif outcome.runs:
            del self._of[outcome.one]
        self._pile, self._wanted = pile, outcome.value
        try:
            if not adding:
                self._put(outcome.value, layers)
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
