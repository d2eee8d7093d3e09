"""A context manager entered for the time of a session: a patch with the verb ``enter``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.process_end import call_guarded
from hookpatch._engine.site.site import Site
from hookpatch._session.ledger import Entry, Requested
from hookpatch._session.lifecycle.applied import undo
from hookpatch._session.lifecycle.lifecycle import Formers, Lifecycle


@final
@dataclass(slots=True, eq=False)
class Entered:
    """A context manager entered for a patch."""

    entry: Entry
    stack: ExitStack

    def restore(self, request: Requested) -> None:
        """Leave the context manager."""
        call_guarded(self.stack.close)
        self.entry.become("restored")


@final
class ContextLifecycle(Lifecycle):
    """The lifecycle of a patch that enters a context manager."""

    __slots__ = ("_entered",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._entered: Final[list[Entered]] = []

    def _fit(self, module: ModuleType | None, anew: bool) -> None:
        """Enter the context manager; after a reload, leave the context manager of the old module first."""
        entry = None
        while (entered := self._last()) is not None:
            entry = entered.entry
            call_guarded(entered.stack.close)
        stack = ExitStack()
        entry = entry or self._next_entry()
        self._entered.append(entered := Entered(entry, stack))  # first: the end of the session leaves it
        try:
            call_guarded(lambda: stack.enter_context(self._request.patch.change(module)))
        except Exception as error:
            if not is_interrupt(error) and entered in self._entered:
                self._entered.remove(entered)
            raise
        entry.become("applied")
        entry.warnings = self._warnings
        if self._ended:
            errors: list[Exception] = []
            undo(entered, self._request, errors)
            if errors:
                raise errors[0]

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        while (entered := self._last()) is not None:
            undo(entered, self._request, errors)

    def _last(self) -> Entered | None:
        """Remove and return the context manager entered last; None if no context manager is left."""
        try:
            return self._entered.pop() if self._entered else None
        except IndexError:  # another thread took the last context manager
            return None
