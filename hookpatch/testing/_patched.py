"""Apply patches until the end of a test, and check the test's modules afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Patch, Scope
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.resolve import resolve
from hookpatch._engine.slots.slot import inner
from hookpatch._processes.active import active
from hookpatch._session.ledger import Requested
from hookpatch._session.session import Session
from hookpatch.errors import DisplacedWarning, HookpatchError
from hookpatch.testing._pristine import NotPristine, refuse_unchanging
from hookpatch.testing._snapshot import Snapshot

if TYPE_CHECKING:
    from hookpatch._processes.payload import Children


class NotApplied(AssertionError):
    """A required patch was not applied although its module was imported.

    Attributes:
        patches: a line for each patch, with the reason.
    """

    def __init__(self, *patches: str) -> None:
        super().__init__(*patches)
        self.patches = patches

    def __str__(self) -> str:
        return "\n  ".join([f"{len(self.patches)} not applied, and required:", *self.patches])


@final
class Patched:
    """The type of the fixture ``patched``: opens sessions until the end of the test. Lives as long as the test."""

    def __init__(self) -> None:
        self._open: Final[list[_Span]] = []
        self._ended: Final[list[_Span]] = []

    def __call__(
        self,
        *what: str | Patch,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        scope: Scope = "process",
        children: Children = "inherit",
        count: bool = False,
        pristine: Iterable[object] = (),
    ) -> Session:
        """Open a session of plugins and patches; the session is closed at the end of the test, the last opened first.

        The test fails if a required patch could not be applied to its imported module. The test also fails if the owner
        of a patched slot differs from before: compared as by ``pristine()``, without submodules imported meanwhile.

        Args:
            *what: names of installed plugins, and patches.
            options: options by plugin name.
            scope: as for ``active``.
            children: as for ``active``.
            count: True to count the calls of each patch, for the report.
            pristine: further owners to compare.

        Returns:
            The open session; ``report()`` gives the result of each patch. A test may close the session earlier.

        Raises:
            HookpatchError: as ``active`` and its ``__enter__``.
        """
        further = tuple(pristine)
        for owner in further:
            refuse_unchanging(owner, "patched(pristine=)")
        span = _Span(active(*what, options=options, scope=scope, children=children, count=count), further)
        span.begin()
        self._open.append(span)
        return span.session

    def end(self) -> None:
        """Close all sessions, the last opened first, also after an error; then compare the owners.

        Raises:
            NotApplied: a required patch was not applied.
            NotPristine: an owner differs from before.
            RestoreError: a slot could not be restored.
            ExceptionGroup: several errors.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        errors = self.close()
        if traces := self.traces():
            errors.append(NotPristine(*traces))
        raise_errors(errors)

    def close(self) -> list[Exception]:
        """Close all sessions, the last opened first, and record differences; return other errors."""
        errors: list[Exception] = []
        while self._open:
            span = self._open.pop()
            span.close(errors)
            self._ended.append(span)
        return errors

    def traces(self) -> tuple[str, ...]:
        """Return a line for each difference at the end of a session that still exists."""
        return tuple(dict.fromkeys(line for span in self._ended for line in span.traces()))


def raise_errors(errors: list[Exception]) -> None:
    """Raise an error, or several errors as a group."""
    __tracebackhide__ = True
    if len(errors) == 1:
        raise errors[0].with_traceback(None)  # the message names the place
    if errors:
        raise ExceptionGroup("patched()", errors)


@final
class _Span:
    """One session of a test, with snapshots of the patched owners. Lives as long as the test."""

    def __init__(self, session: Session, further: Iterable[object]) -> None:
        self.session: Final = session
        self._further: Final = [Snapshot(owner) for owner in further]
        self._of_targets: Final[dict[int, list[Snapshot]]] = {}  # by the index of the patch in the session
        self._watches: Final[list[imports.Watch]] = []
        self._recorded: Final[list[str]] = []

    def begin(self) -> None:
        """Record the owners, and open the session."""
        try:
            for index, requested in enumerate(self.session._requests):
                self._watch(index, requested)
            self.session.open()
        except BaseException:
            self._cancel_watches()
            raise

    def close(self, errors: list[Exception]) -> None:
        """Close the session and record differences; add other errors to ``errors``."""
        failed = [str(patch) for patch in self.session.report() if patch.required and patch.state == "failed"]
        if failed:
            errors.append(NotApplied(*failed))
        self._cancel_watches()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisplacedWarning)  # the comparison below finds each leftover
            try:
                self.session.close()
            except Exception as error:
                errors.append(error)
        self._recorded.extend(self._differences())

    def traces(self) -> list[str]:
        """Return the recorded differences that still exist."""
        # Not new differences: a session opened earlier has been closed since.
        present = set(self._differences())
        return [line for line in self._recorded if line in present]

    def _watch(self, index: int, requested: Requested) -> None:
        """Record a patch's owner: at once if its module is imported, and at each execution of the module."""
        name = requested.patch.module
        if name is None:
            self._record(index, requested, None)
            return
        # Registered before the watch of the session, and hence called before the patch is applied.
        self._watches.append(imports.watch(name, partial(self._record, index, requested)))
        module = self._watches[-1].present()
        if module is not None:
            self._record(index, requested, module)

    def _record(self, index: int, requested: Requested, module: ModuleType | None) -> None:
        target = requested.patch.target
        if target is None:  # the verb enter with a module
            self._of_targets[index] = [Snapshot(module)]
            return
        try:
            slot = resolve(target, module, requested.owner)
        except HookpatchError:
            return  # the session reports the error
        self._of_targets[index] = [Snapshot(slot.owner)]
        value = inner(beneath(slot)) if isinstance(slot, ItemSlot) else None
        if isinstance(value, FunctionType):  # the session may replace its code; a snapshot has no code of items
            self._of_targets[index].append(Snapshot(value, within=False))

    def _cancel_watches(self) -> None:
        while self._watches:
            self._watches.pop().cancel()

    def _differences(self) -> Iterator[str]:
        for snapshots in self._of_targets.values():
            for snapshot in snapshots:
                yield from snapshot.differences(submodules=False)
        for snapshot in self._further:
            yield from snapshot.differences()
