"""Enter a session on the fast path: no lock is taken, no lifecycle and no entry is made, if all patches plainly fit.

Anything unusual returns False before a change: then the session opens and closes with locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import time
from typing import Literal
from weakref import ref

from hookpatch._bootstrap import interrupts
from hookpatch._bootstrap.imports import stand_down
from hookpatch._bootstrap.interrupts import Turn, write_notes_now
from hookpatch._engine.site.site import Site
from hookpatch._plugins import notify
from hookpatch._plugins.notify import hearers
from hookpatch._session.lifecycle.everywhere import are_in_place
from hookpatch._session.lifecycle.prepared import Prepared, forget, forget_unused
from hookpatch._session.span.leftovers import Listed, note_dead, opened
from hookpatch._session.span.opening import OpeningSession
from hookpatch._session.span.part import Pairs
from hookpatch._session.span.state import numbers

interrupts.takers.add(__file__)


class SessionAgain(OpeningSession):
    """A session that can be entered on the fast path, the first time and again.

    A block on the fast path writes its frame, session and entrance into ``fast_path``, which has one entry. A thread
    that finds the entry of an interrupted frame calls ``finish``, and again if the call was interrupted.
    """

    # --- on the fast path. ``heard``: the sites, if a plugin listens to their changes

    def begin_again(self, entrance: object) -> bool:
        """Apply the patches as before; change nothing and return False if a patch may not fit. On the fast path."""
        return self._state != "open" and self._is_simple and not self._errors and self._begin(entrance)

    def _begin(self, entrance: object, heard: Sequence[Site] = ()) -> bool:
        if self._listed is None and len(self._requests) > 1 and not are_in_place(self._requests):
            return False
        listed = self._make_listed()
        self._number = number = next(numbers)
        self._state, self._is_fast, self._written = "opening", True, None  # in this order, for ``finish``
        place = 0
        for also in self._also:
            if not also.begin_again(number):
                return self.end_again(heard)
        for request in self._requests:
            preparation: Prepared | None = request.patch._prepared
            if preparation is None or not preparation.begin(request, number, place, listed[0]):
                return self.end_again(heard)
            place -= 1
        if heard and not all(hearer.begin(heard) for hearer in hearers):
            return self.end_again(heard)
        if self._is_listed:
            opened[number] = listed
        self._opened_at = time()
        self._entrances[entrance] = None
        self._state = "open"
        return True

    def _make_listed(self) -> Listed:
        if (listed := self._listed) is None:
            self._listed = listed = ref(self, note_dead), self._undos, self._also, self._requests
        return listed

    def _forget_ready(self) -> None:
        """Have the next block of these patches write notes."""
        self._ready = None
        for request in self._requests:
            if (preparation := request.patch._prepared) is not None:
                preparation.ready = None

    def pairs(self) -> Pairs:
        """Return the patches that the session has applied on the fast path, as prepared."""
        pairs = [(request.patch._prepared, request) for request in self._requests]
        return [(ready, request) for ready, request in pairs if ready is not None and ready.number == self._number]

    def take_over(self, number: int, entrance: object) -> bool:
        """Open the session of a patch that a block has applied with its own, without notes, under the block's number.

        Return False if the block has not. On the fast path; repeated after an interrupt.
        """
        if self._state == "open":
            return True
        listed, preparation = self._listed, self._requests[0].patch._prepared
        if listed is None or preparation is None or not preparation.number:
            return False
        if preparation.number == number:
            self._number = next(numbers)
            self._state, self._is_fast, self._written = "opening", True, None
            preparation.number = self._number
        elif preparation.number != self._number:
            return False
        preparation.write_notes(self._number, 0, listed[0])
        if self._is_listed:
            opened[self._number] = listed
        self._opened_at = time()
        self._entrances[entrance] = None
        self._state = "open"
        return True

    def _end(self, entrance: object) -> bool:
        """Restore the patches; change nothing and return False if the session was touched since."""
        heard = self._sites() if hearers else ()
        if entrance not in self._entrances or not self.may_end_again(heard):
            return False
        self._state = "closing"
        for also in self._also:
            if not also.end_again(self._number):
                self._state = "open"
                return False
        self._restore_again(heard)
        return True

    def may_end_again(self, heard: Sequence[Site] = ()) -> bool:
        """Return True if the session was opened on the fast path and not touched since."""
        if not self._is_fast or len(self._entrances) > 1:
            return False
        for request in self._requests:
            preparation: Prepared | None = request.patch._prepared
            if preparation is None or preparation.number != self._number:
                return False
            if (alone := preparation.alone) is None or not preparation.site.lies_alone(alone):
                return False
        return not heard or all(hearer.may_end(heard) for hearer in hearers)

    def end_again(self, heard: Sequence[Site] = ()) -> Literal[False]:
        """End the opening or session of the fast path, in any state; called again after an interrupt. Return False."""
        for also in self._also:
            if not also.end_again(self._number):
                interrupts.begin(partial(also.end, self._number))  # the next look does the part with a lock
        self._restore_again(heard)
        return False

    def _end_unwritten(self) -> Literal[False]:
        """End the opening or closing of a block without notes, in any state, as ``end_again`` does. Return False."""
        self._forget_ready()
        write_notes_now()
        self.end_again(self._sites() if hearers else ())
        stand_down()
        return False

    def give_up_again(self) -> bool:
        """End the opening or the session of the fast path, if any; return False if the end needs a lock."""
        if not self.may_give_up_again():
            return False
        if self._state != "closed":
            self.end_again()
        return True

    def may_give_up_again(self) -> bool:
        """Return True if ``give_up_again`` needs no lock: an interrupted opening on the fast path needs none."""
        return self._state == "closed" or (self._is_fast and (self._state != "open" or self.may_end_again()))

    def _restore_again(self, heard: Sequence[Site]) -> None:
        is_kept = True
        for request in self._requests:  # each alone at a site: the order does not matter
            preparation: Prepared | None = request.patch._prepared
            if preparation is not None and preparation.number == self._number and not preparation.end():
                is_kept = False
        for hearer in hearers if heard else ():
            if not hearer.end(heard):
                interrupts.begin(partial(notify.sites_changed, heard))  # the next look notifies the plugins
        if not is_kept:
            for request in self._requests:
                if (preparation := request.patch._prepared) is not None and not (
                    preparation.is_kept or preparation.number
                ):
                    forget(request.patch)
        if self._undos:
            self._undos.clear()
        opened.pop(self._number, None)
        self._closed_at, self._is_prepared = time(), is_kept
        self._entrances.clear()
        self._is_fast, self._state = False, "closed"

    def _sites(self) -> list[Site]:
        preparations: list[Prepared | None] = [request.patch._prepared for request in self._requests]
        return [preparation.site for preparation in preparations if preparation is not None]

    # --- after an interrupt on the fast path

    def finish(self, entrance: object) -> None:
        """Restore the patches after an interrupted opening or closing of an entrance on the fast path."""
        if self._state in ("opening", "closing"):
            self._end_unwritten()
        elif self._is_fast and entrance in self._entrances:
            interrupts.begin(partial(self._give_up, entrance))  # still whole: the next look ends the entrance
        for request in self._requests:
            forget_unused(request.patch)

    def needs(self, lock: Turn) -> bool:
        """Return True for the lock of the session, and for the locks of the session's sites."""
        return self._turns.get(None) is lock or any(site.lock is lock for site in self._sites())
