"""A slot made real: what stood there, and the layers over it.

A Site keeps the true original once, and an ordered list of layers. Whenever a layer comes or goes, what belongs into
the slot is computed again from both. So removal in any order is exact, which saved values on a stack can never be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, TypeAlias, final
from weakref import ReferenceType

from hookpatch._beneath import began, originals
from hookpatch._hold import Ending, Hold
from hookpatch._layer import Layer
from hookpatch._leftover import Leftover, leftovers
from hookpatch._order import Pile
from hookpatch._outcome import Ground, Outcome
from hookpatch._slot import ABSENT, Slot
from hookpatch._standing import Standing, bring_back, retire
from hookpatch._turn import Turn

_Edit: TypeAlias = Callable[[Pile], Pile]
_NOTHING: Final = Pile()
covered: Final[set[Site]] = set()  # those that cannot put what they should: something of somebody else's is there


@final
class Site:
    """One slot with the owner's own value or nothing. Lives while it has layers.

    Attributes:
        slot: the place.
        turn: whose turn it is to change it.
    """

    __slots__ = (
        *("__weakref__", "_ending", "_has_left_out", "_hold", "_pile", "_retired", "_standings", "_wanted"),
        *("slot", "turn"),
    )

    def __init__(self, slot: Slot) -> None:
        self.slot: Final = slot
        # One for each site, and not held while a factory runs: reading and setting the slot may run its owner's code.
        self.turn = Turn()
        self._pile = _NOTHING
        self._retired: Sequence[ReferenceType[Standing]] = ()  # what stood there, and is held by somebody
        self._has_left_out = False
        self._ending: Ending = "restored"
        self._hold: Final = Hold(slot)
        self._wanted: Any = ABSENT
        self._standings: Sequence[Standing] = ()  # what stands there, one for each run of call layers

    def _ground(self) -> None:
        """Take what the slot holds now as the original."""
        self._hold.take_ground()
        self._standings = ()
        for layer in self._pile.layers:
            layer.standing = None

    @property
    def original(self) -> Any:
        """The owner's own value before any layer, or ABSENT."""
        return self._hold.original

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
        return self._hold.value

    @property
    def stood(self) -> list[Any]:
        """What stands in the slot, stood there lately, or is inherited there: as far as we know, as it lay there."""
        return self._hold.stood

    def add(self, layer: Layer, note: Callable[[], None]) -> None:
        """Put a layer on, unless it has ended by now.

        Args:
            layer: the layer.
            note: called when it lies there, before anybody else changes the site.

        Raises:
            ApplyError, OrderError: it cannot lie there; nothing is changed.
        """
        self._change(
            lambda pile: pile if layer.ended else pile.with_one_more(layer, self.slot),
            lambda: note() if layer in self._pile.layers else None,
            *(layer, True),
        )

    def drop(self, layer: Layer, note: Callable[[Ending], None], given_back: Callable[[], None]) -> Ending:
        """Take a layer off; return what became of the slot. Another that cannot lie over what is left is told so.

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
            if ending != "restored" or (not self._pile.layers and self._hold.may_come_back):
                self._hold.give_back_later(given_back)

        self._change(lambda pile: pile.with_one_less(layer), end, layer)
        return ending

    def refresh(self) -> None:
        """Lay all layers over what the slot holds now: its module was executed anew."""
        if not (turn := self.turn).take():
            return turn.later(self.refresh)
        try:
            if not self._pile.layers or self._hold.is_there:
                return None
            # Functions taken before the reload stay patched as long as we are.
            self._retired = retire(self._standings, self._retired)
            self._ground()
            self._pile = self._pile.again()  # another one: whoever is computing has to do it anew
            began(self._hold)
        finally:
            turn.end()
        return self._change(Pile.again)

    def stir(self, left: Sequence[Leftover]) -> None:
        """Look whether theirs has gone; ``left`` are the slot's leftovers. From anywhere, so never wait for a turn."""
        if (turn := self.turn).take(wait=False):
            try:
                self._settle(left)
            finally:
                turn.end()

    def _settle(self, left: Sequence[Leftover]) -> None:
        """Put what belongs into the slot, if somebody else's value was in the way and has gone."""
        # What the owner raises is nothing to who happens to look: the next look tries again.
        for leftover in left:
            with suppress(Exception):
                if leftover.is_at(self.slot) and not (self._pile.layers and self._hold.is_ours) and leftover.look():
                    leftover.forget()
        if self._pile.layers:
            with suppress(Exception):
                self._put(self._wanted, self._pile.layers)

    def _change(
        self, edit: _Edit, note: Callable[[], None] = lambda: None, one: Layer | None = None, adding: bool = False
    ) -> None:
        # Factories are foreign code: they run outside the lock, lest they import what another thread is importing
        # while it waits for us. If somebody changed the site meanwhile, once more.
        while True:
            if not (turn := self.turn).take():
                return turn.later(partial(self._change, edit, note, one))
            try:
                if not self._pile.layers:
                    if left := leftovers():
                        self._settle(left)
                    self._ground()
                before, known = self._pile, self._known
                after = edit(before)
                if not after.layers:  # there is nothing to compute
                    says = self._commit(after, Outcome(self._hold.original), note)
                    break
            finally:
                turn.end()
            try:
                outcome = self._outcome(before, after, one, adding, known)
            except Exception:
                if self._pile is before:
                    raise
                continue  # in the midst of somebody's change, things may not fit together
            turn = self.turn
            turn.take()
            try:
                # Without layers it may have got another original while a factory ran: by a reload.
                if self._pile is before and (before.layers or not self._hold.was_set):
                    says = self._commit(after, outcome, note)
                    break
            finally:
                turn.end()
        if says:
            with ExitStack() as saying:  # all is said, whatever a warning raises
                for say in says:
                    saying.callback(say)

    def _outcome(
        self, before: Pile, after: Pile, one: Layer | None, adding: bool, known: Sequence[Standing]
    ) -> Outcome:
        """Return what is to become of the slot when one layer comes or goes, or all are laid anew."""
        ground = Ground(self._hold, before, self._wanted, known)
        if one is not None and not (self._retired or self._has_left_out):
            outcome = ground.beside(after, one)
            if outcome is not None:
                return outcome
        if after.layers[-1].patch.verb != "replace":
            self._hold.look_up_base()
        return ground.under(after.layers, adding)

    @property
    def _known(self) -> Sequence[Standing]:
        """What stands in the slot, or did and may be held by somebody."""
        if not self._retired:
            return self._standings
        return [*self._standings, *(one for one in (weak() for weak in self._retired) if one is not None)]

    def _commit(self, pile: Pile, outcome: Outcome, note: Callable[[], None]) -> list[Callable[[], None]]:
        """Have it come to pass, and noted; return what is to be said of it when nothing of ours is locked."""
        self._lay(pile, outcome)
        note()
        left_out = outcome.left_out
        if not (left_out or self._has_left_out):
            return []
        self._has_left_out = bool(left_out)
        return [say for layer in pile.layers if (say := layer.leave_out(left_out.get(layer))) is not None]

    def _lay(self, pile: Pile, outcome: Outcome) -> None:
        layers, runs, adding = pile.layers, outcome.runs, len(pile.layers) > len(self._pile.layers)
        if adding:
            known = self._known
            for standing, run in runs:
                if standing not in known:
                    standing.point(run)  # before anybody can call it
            runs = [one for one in runs if one[0] in known]
            if not self._pile.layers:
                began(self._hold)
            try:
                self._put(outcome.value, layers, adding)  # first: if the owner refuses it, nothing has changed
            except BaseException:
                if not self._pile.layers:
                    originals.pop(self.slot.key, None)
                raise
        for standing, run in runs:
            standing.point(run, by_one=outcome.one is not None)
        if outcome.one is None:
            for layer in layers:
                layer.standing = None
            self._replace([standing for standing, _ in outcome.runs])
        elif outcome.runs:
            outcome.one.standing = outcome.runs[0][0] if adding else None
        self._pile, self._wanted = pile, outcome.value
        try:
            if not adding:
                self._put(outcome.value, layers)
        except BaseException:
            if layers:
                covered.add(self)  # the next look tries again
            raise
        finally:
            if not layers:
                originals.pop(self.slot.key, None)
                covered.discard(self)
        if not layers:
            self._ending = self._hold.end()

    def _put(self, value: Any, layers: Sequence[Layer], adding: bool = False) -> None:
        self._hold.put(value, layers, adding)
        (covered.add if self._hold.is_covered else covered.discard)(self)

    def _replace(self, standings: list[Standing]) -> None:
        """Have these stand there, and the others no more."""
        gone = [one for one in self._known if one not in standings] if standings else self._known
        self._retired = retire(gone, self._retired)
        if self._retired:
            self._retired = bring_back(standings, self._retired)
        self._standings = standings
        for one in standings:
            for layer in one.layers:
                layer.standing = one

    def __repr__(self) -> str:
        return f"<Site {self.slot} with {list(self.layers)}>"
