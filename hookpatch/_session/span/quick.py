"""Enter a session again as fast as possible: a block of the user that puts off its notes of layers and watches.

Anything unusual writes the notes, and the session goes on as ``SessionAgain``, or opens and closes with locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from sys import _getframe, getrefcount
from time import time
from typing import Any, Final

from hookpatch._bootstrap import interrupts
from hookpatch._bootstrap.environment import enables_blocks
from hookpatch._bootstrap.imports import (
    announced_late,
    begun_module,
    begun_names,
    executing,
    stand_by,
    stand_down,
    unheard,
)
from hookpatch._bootstrap.interpreters import MODULE, are_several
from hookpatch._bootstrap.interrupts import fast_path, first_of, held, operations, unwritten, write_notes_now
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.site.late_restore import waiting
from hookpatch._engine.site.site import covered
from hookpatch._engine.slots.lazy import KNOWS_LAZY, lazy_places
from hookpatch._engine.slots.originals import reading
from hookpatch._plugins.notify import LIBRARY, hearers, hosts
from hookpatch._session.ledger import listeners
from hookpatch._session.lifecycle.prepared import Prepared, forget_unused, note_first
from hookpatch._session.lifecycle.slots import prepare
from hookpatch._session.span.again import SessionAgain
from hookpatch._session.span.leftovers import Listed, dead, has_lost, opened, postponed
from hookpatch._session.span.part import Quick, Ready
from hookpatch._session.span.state import numbers

interrupts.takers.add(__file__)


class QuickSession(SessionAgain):
    """A session whose blocks take the fast path, the first time and again."""

    def _enter_again(self, entrance: object) -> bool:
        """Open the session with patches prepared now or the last time; return False if a patch may not fit.

        No lock is taken, no lifecycle and no entry is made: ``make_entries`` makes both on demand.
        """
        new: Sequence[tuple[Patch, Prepared]] | None = ()
        if not self._is_prepared and (new := self._prepare()) is None:
            return False
        moment = time()  # a new object: no other entry has it
        # The frame is in no variable: a frame holding itself would keep an interrupted call alive.
        if first_of(None, (_getframe(), self, entrance, moment))[3] is not moment:
            return False
        try:
            is_open = self._put_values(entrance, moment) or self._begin_with_notes(entrance, new or ())
        except BaseException:
            self.finish(entrance)  # interrupted again: the entry stays, and the next look calls ``finish``
            del fast_path[None]
            raise
        del fast_path[None]
        return is_open

    def _prepare(self) -> list[tuple[Patch, Prepared]] | None:
        """Return the patches prepared now; None if the session, or a patch, needs a lock."""
        if self._state == "open" or not self._is_simple or self._errors:
            return None
        new: list[tuple[Patch, Prepared]] = []
        for request in self._requests:
            if request.patch._prepared is None:
                if (preparation := prepare(request)) is None:
                    return None
                new.append((request.patch, preparation))
        if not new and len(self._requests) == 1 and self._ready is None:
            self._take_ready()
        return new

    def _begin_with_notes(self, entrance: object, new: Sequence[tuple[Patch, Prepared]]) -> bool:
        if self._state == "open" or not enables_blocks():
            return False
        write_notes_now()
        if _is_disturbed() or (opened and has_lost()):
            return False
        for patch, preparation in new:
            note_first(patch, preparation)
        is_open = self._begin(entrance, self._sites() if hearers else ())
        for patch, _ in () if is_open else new:
            forget_unused(patch)
        if is_open and not new and self._is_listed and self._ready is None:
            self._get_ready()
        return is_open

    def _end_with_notes(self, entrance: object) -> bool:
        write_notes_now()
        return not (_is_disturbed() or (len(opened) > 1 and has_lost())) and self._end(entrance)

    # --- what the next block applies without notes

    def _get_ready(self) -> None:
        """Make what the next block may apply without notes; nothing if a part or a patch has to write notes.

        For a session of a single patch, also what a later session of the patch may apply.
        """
        first = self._requests[0].patch._prepared
        is_kept = first is not None and (self._requests, self._also) in first.requests.values()
        if not (self._is_prepared or is_kept):
            return  # the first time
        parts: list[Quick] = []
        of_hearers = [hearer.quick(self._sites()) for hearer in hearers]
        for part in (*of_hearers, *(also.quick() for also in self._also)):
            if part is None:
                return
            parts.append(part)
        pairs, further = self.pairs(), [pair for part in parts for pair in part.pairs]
        if len(pairs) < len(self._requests) or any(preparation.number < self._number for preparation, _ in further):
            return  # another block has applied a further patch before
        self._be_ready(Ready(self._also, [*pairs, *further], parts, bool(hearers)))
        if first is not None and is_kept:
            first.ready = self._ready

    def _take_ready(self) -> None:
        """Take what an earlier session of the same patch has made."""
        [request] = self._requests
        ready: Ready | None = None if (first := request.patch._prepared) is None else first.ready
        if ready is not None and ready.also == self._also and ready.pairs[0][1] is request:
            self._be_ready(ready)

    def _be_ready(self, ready: Ready) -> None:
        listed = self._make_listed()
        self._write_notes = partial(_write_notes, listed, ready.parts)
        self._ready = ready  # last, for ``_put_values``

    # --- without notes; each in one function: calls, of ``Alone.put_value`` for example, would take a tenth of the time

    def _put_values(self, entrance: object, moment: float) -> bool:
        """Apply the patches as the last time; restore and return False if a patch may not fit. On the fast path."""
        if (ready := self._ready) is None or any(_IN_THE_WAY) or self._state == "open":
            return False
        if (hearers or LIBRARY in begun_names) and not ready.is_heard:
            self._forget_ready()  # made before the import
            return False
        if (MODULE in begun_names and are_several()) or not enables_blocks() or (opened and has_lost()):
            return False
        self._number = number = next(numbers)
        self._state = "opening"  # first, for ``finish``
        self._is_fast, self._written = True, None
        unwritten[number] = self._write_notes
        if not stand_by():
            return self._end_unwritten()
        pairs: Any = ready.pairs  # of a prepared patch, the watch and ``alone`` are not None
        for preparation, request in pairs:
            if preparation.request is not request or preparation.number:
                return self._end_unwritten()
            alone = preparation.alone
            if preparation.site.last_facts is not alone.facts:
                return self._end_unwritten()
            if begun_module(preparation.watch.module) is not preparation.module:
                return self._end_unwritten()
            if preparation.class_ is not None and not preparation.is_of_its_class():
                return self._end_unwritten()
            name = alone.name
            if alone.names.get(name) is not alone.own or (KNOWS_LAZY and lazy_places(name)):
                return self._end_unwritten()
            if (cell := alone.cell) is not None and getrefcount(alone.value) != alone.references:
                return self._end_unwritten()
            preparation.number = number  # first: ``write_notes`` looks here
            if cell is not None:
                cell.cell_contents = alone.link
            alone.write(name, alone.value)
        for part in ready.parts:
            if not part.put():
                return self._end_unwritten()
        self._opened_at = moment
        self._entrances[entrance] = None
        self._state = "open"
        return True

    def _take_values(self, entrance: object, moment: float) -> bool:
        """Undo ``_put_values``; return False, with all patches applied, if one was touched since. On the fast path."""
        number = self._number
        # Whoever has taken a lock since, also for another entrance, or has imported a module, has written the notes. A
        # session in ``opened`` has notes, too: an interrupt kept the writer from the end.
        if number not in unwritten or number in opened or any(_DISTURBING_AT_END) or entrance not in self._entrances:
            return False
        ready: Any = self._ready  # not None in a block without notes
        if hearers and not ready.is_heard:
            return False
        self._state = "closing"
        for part in ready.parts:
            if not part.take():
                self._state = "open"
                return False
        pairs = ready.pairs
        for preparation, _ in pairs:
            alone = preparation.alone
            if alone.names.get(alone.name) is not alone.value or (
                alone.cell is not None  # else the value is no wrapper
                and (
                    getrefcount(alone.value) != alone.references + 1  # the slot's
                    or alone.function.__code__ is not alone.code
                )
            ):
                self._state = "open"
                return False
        for preparation, _ in pairs:
            alone = preparation.alone
            if (cell := alone.cell) is not None:
                cell.cell_contents = alone.off
            alone.write(alone.name, alone.own)
            preparation.number = 0
        stand_down()
        del unwritten[number]
        self._closed_at = moment
        self._entrances.clear()
        self._is_fast, self._state = False, "closed"
        return True


def _write_notes(listed: Listed, parts: Sequence[Quick], number: int) -> None:
    """Write the notes of a session opened without; repeated after an interrupt."""
    session, _, _, requests = opened[number] = listed
    for part in parts:
        part.note(number)
    for place, request in enumerate(requests):
        if (preparation := request.patch._prepared) is not None:
            preparation.write_notes(number, -place, session)


def _is_disturbed() -> bool:
    """Return True if no block may take the fast path now: a lock is held, or work waits for a look at the patches."""
    if any(_DISTURBING) or (LIBRARY in begun_names and not hearers):
        return True
    return MODULE in begun_names and are_several()  # an interpreter made inside a block keeps the patches


_DISTURBING_AT_END: Final = operations, postponed, dead, listeners, hosts
_DISTURBING: Final = operations, held, postponed, dead, covered, waiting, listeners, hosts, unheard, announced_late
_IN_THE_WAY: Final = *_DISTURBING, unwritten, reading, executing
