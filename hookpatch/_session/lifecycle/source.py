"""A change of the source of a module: made at each execution of the module, which may be run anew at once."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.patch.process_end import raised, text_of
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import ordered
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots import guard
from hookpatch._engine.source.loading import Change
from hookpatch._session.lifecycle.lifecycle import Formers, Lifecycle, fail_late
from hookpatch.errors import ApplyError, EditError, HookpatchError

_KEPT: Final = "the module runs changed till the end of the process; reload=True runs it anew at the end"


@final
class SourceLifecycle(Lifecycle):
    """The lifecycle of a change of the source of a module."""

    __slots__ = ("_change", "_is_beginning")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._change: Change | None = None
        self._is_beginning = False  # until the module has been run anew

    def _begin(self) -> None:
        """Change the source at each execution of the module from now on; note whether to run the module anew."""
        request, patch, name = self._request, self._request.patch, str(self._request.patch.module)
        try:
            if self._scope == "task":
                guard.check_patch(patch, self._scope, self._owner)
            guard.check_not_run(patch, self._owner)
            layer = Layer(patch, request.plugin, self._owner, self._rank, distribution=request.distribution)
            self._change = Change(layer, self._check_source, self._fail)
            self._change.begin(partial(ordered, site=name))
            self._watch = imports.Watch(name, self._note_execution)
            if self._watch.begin() is None:
                self._watch.present()
            self._is_beginning = imports.begun(name) and not imports.is_ahead(name)
        except ApplyError as error:
            if patch.required:
                raise
            self._next_entry().become("skipped", error)

    def run_anew(self) -> None:
        """Execute the module anew, if the module has run before: once for all changes of a session.

        Raises:
            HookpatchError: the change does not fit, or the module raises an error.
        """
        change = self._change
        if change is None or not self._is_beginning:
            return
        try:
            if not change.runs:
                change.run_again(is_entering=True)
        except HookpatchError as error:
            if self._request.patch.required:
                self._entry.become("failed", error)
                raise
        except Exception as error:
            if is_interrupt(error):
                raise
            problem = f"running it anew {raised(error)}{text_of(error)}"
            failure = ApplyError(self._request.patch.address, self._owner, problem)
            self._entry.become("failed", failure)
            raise failure from error
        finally:
            self._is_beginning = False

    def _check_source(self) -> None:
        """Check the facts of the patch before each execution of the module."""
        self._warnings = ()
        guard.check_patch(self._request.patch, self._scope, self._owner)
        self._warn_if_unneeded()

    def _fail(self, error: ApplyError) -> None:
        """Note an unfit change of the source; raise while the session is entered, else proceed as at any import."""
        if self._is_beginning and self._request.patch.required:
            raise error
        if self._request.patch.required:
            late = imports.how_late(self._request.patch.module)
            fail_late(self._next_entry(), self._policy, error, is_late=bool(late))
        else:
            self._next_entry().become("skipped", error)

    def _note_execution(self, module: ModuleType) -> None:
        """Note the execution of the module, inside a foreign import."""
        assert self._change is not None  # made before the watch
        name = str(self._request.patch.module)
        try:
            if self._change.runs:
                entry = self._entry if self._entry.state == "applied" else self._next_entry()
                entry.become("applied")
                entry.warnings = self._warnings
            elif imports.how_late(name):
                self._fail(EditError(name, self._owner, f"{imports.past_us(name)}, and has run as it is"))
            elif getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
                self._fail(EditError(name, self._owner, f"{name} is a namespace package, and has no source"))
        finally:
            imports.afterwards(self._ledger.notify)

    def _restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        if self._change is not None:
            self._change.end()

    def end_source(self, errors: list[Exception]) -> None:
        """Execute the module anew without the ended changes, if the patch has reload=True."""
        change = self._change
        if change is None:
            return
        if self._request.patch.reload and change.runs:
            try:
                change.run_again()
            except Exception as error:
                if is_interrupt(error):
                    raise
                if self._entry.state == "applied":
                    self._entry.become("failed", f"could not be run anew: {type(error).__name__}: {error}")
                errors.append(error)
                return
        if self._entry.state == "applied":
            self._entry.become(*(("restored",) if self._request.patch.reload else ("kept", _KEPT)))
