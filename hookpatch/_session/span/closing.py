"""Close a session with locks, and say at the end what was missed: calls, matches, modules, other interpreters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hookpatch._bootstrap import imports, interrupts
from hookpatch._bootstrap.interpreters import other_interpreters
from hookpatch._engine.site.sites import restore_late
from hookpatch._session import task
from hookpatch._session.findings.shortfalls import misspelt, never_called, too_few_calls, too_few_matches
from hookpatch._session.span.leftovers import finish_interrupted, opened
from hookpatch._session.span.quick import QuickSession
from hookpatch._session.span.state import NO_INTERPRETERS
from hookpatch._session.span.statement import last_entrance
from hookpatch.errors import (
    CallsError,
    HookpatchWarning,
    NeverCalledWarning,
    OutlivedWarning,
    RestoreError,
    TooFewMatchesWarning,
    UnknownModuleWarning,
    warn,
)

interrupts.takers.add(__file__)


class ClosingSession(QuickSession):
    """A session that can be closed: the last entrance restores the patches."""

    def _close(self, tells: bool, is_statement: bool = False) -> None:
        """End an entrance, of a with statement or of an ``open``.

        ``tells``: raise an error and warn about what was missed.
        """
        if self._state != "open":
            finish_interrupted()
            self._may_stay_new = True  # closed on purpose, not forgotten
            return
        ended = last_entrance(self._entrances, is_statement)
        self._in_turn(ended, partial(self._close_or_count, tells, ended, is_statement))

    def _close_or_count(self, tells: bool, entrance: object, is_statement: bool) -> None:
        if entrance not in self._entrances:  # another thread has ended the entrance
            entrance = last_entrance(self._entrances, is_statement)
        if entrance not in self._entrances:
            return
        if len(self._entrances) == 1:
            self._close_last(tells, entrance)
        else:
            self._entrances.pop(entrance, None)
            if self._scope == "task":
                task.end(self._number)

    def _close_last(self, tells: bool, entrance: object) -> None:
        try:
            self.make_entries()
            opened.pop(self._number, None)  # else a session under collection would be given up
            finish_interrupted()
            if tells:
                imports.notify_late()
            ledger, interpreters = self._ledger, other_interpreters()
            self._note_interpreters(interpreters)
            is_handed_on = self._is_listed and self._scope == "process"
            keeping = interpreters - self._plain if is_handed_on else NO_INTERPRETERS
            entries = ledger.entries if tells else ()
            messages: list[HookpatchWarning] = [*map(NeverCalledWarning, never_called(entries) if self._count else ())]
            too_few = too_few_calls(entries)
        finally:
            self._leave(entrance)
        restore_late()
        ledger.end()
        ledger.notify()
        if self._errors:
            raise RestoreError(self._errors)
        messages += map(UnknownModuleWarning, misspelt(entries))
        messages += map(TooFewMatchesWarning, too_few_matches(entries))
        if keeping and (names := [entry.request.patch.address for entry in entries if entry.keeps_on]):
            outlived = _in_words(keeping, f"made inside the block, keeps its patches of {', '.join(names)}")
            messages.append(OutlivedWarning(outlived))
        for message in messages:
            warn(message)
        if too_few:
            raise CallsError(too_few)

    def _note_interpreters(self, interpreters: frozenset[int]) -> None:
        """Note the interpreters of this process without the patches, in the entry of each patch."""
        plain = self._plain & interpreters if self._plain else NO_INTERPRETERS
        messages = [_in_words(plain, "made before the block, runs without it")] if plain else []
        if self._scope == "task" and (late := interpreters - self._plain):  # made later, reads the environment
            messages.append(_in_words(late, "made during this block of a task, runs without the patches"))
        for entry in self._ledger.entries if messages else ():
            if entry.state == "applied":
                entry.warnings = tuple(dict.fromkeys((*entry.warnings, *messages)))


def _in_words(interpreters: Iterable[int], relation: str) -> str:
    return f"interpreter {', '.join(map(str, sorted(interpreters)))} of this process, {relation}"
