"""Patches for the length of a test, and what speaks against them at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from hookpatch import _imports
from hookpatch._active import active
from hookpatch._beneath import beneath
from hookpatch._item_slot import ItemSlot
from hookpatch._ledger import Asked
from hookpatch._patch import Patch, Scope
from hookpatch._pristine import NotPristine, refuse_unchanging
from hookpatch._resolve import resolve
from hookpatch._session import Session
from hookpatch._slot import inner
from hookpatch._snapshot import Snapshot
from hookpatch.errors import HookpatchError

if TYPE_CHECKING:
    from hookpatch._luggage import Children


class NotApplied(AssertionError):
    """A required patch was not applied although its module is there.

    Attributes:
        patches: a line for each, with the reason.
    """

    def __init__(self, *patches: str) -> None:
        super().__init__(*patches)
        self.patches = patches

    def __str__(self) -> str:
        return "\n  ".join([f"{len(self.patches)} not applied, and required:", *self.patches])


@final
class Patched:
    """What the fixture ``patched`` gives: opens patches that end with the test. Lives as long as the test."""

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
        """Open a session of these plugins and patches at once; it is closed when the test ends, the last opened first.

        The test fails then if a required patch failed to be applied once its module was there, and if what was patched
        is not as before: each module, class, mapping or other object in which a patch had its place, compared as
        ``pristine()`` does, but for submodules that were imported meanwhile.

        Args:
            *what: names of installed plugins, and patches.
            options: options by plugin name.
            scope: as for ``active``.
            children: as for ``active``.
            count: True to count the calls that patches receive, for the report.
            pristine: owners beyond those that are patched, to be compared as well.

        Returns:
            The session, open: ``report()`` tells what became of each patch. It may be closed earlier.

        Raises:
            HookpatchError: as ``active`` and entering its block.
        """
        further = tuple(pristine)
        for owner in further:
            refuse_unchanging(owner, "patched(pristine=)")
        span = _Span(active(*what, options=options, scope=scope, children=children, count=count), further)
        span.begin()
        self._open.append(span)
        return span.session

    def end(self) -> None:
        """Close what is open, the last opened first, all of it whatever comes in between; then compare.

        Raises:
            NotApplied: a required patch was not applied.
            NotPristine: something is not as before.
            RestoreError: something could not be taken back.
            ExceptionGroup: several of these.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        errors = self.close()
        if found := self.traces():
            errors.append(NotPristine(*found))
        raise_all(errors)

    def close(self) -> list[Exception]:
        """Close what is open, the last opened first, and compare; return what was wrong beside differences."""
        errors: list[Exception] = []
        while self._open:
            span = self._open.pop()
            span.close(errors)
            self._ended.append(span)
        return errors

    def traces(self) -> tuple[str, ...]:
        """Return a line for each thing that was not as before when its session had been closed, and still is not."""
        return tuple(dict.fromkeys(line for span in self._ended for line in span.traces()))


def raise_all(errors: list[Exception]) -> None:
    """Raise an error, or several in one."""
    __tracebackhide__ = True
    if len(errors) == 1:
        raise errors[0].with_traceback(None)  # it says where; the way through these files does not
    if errors:
        raise ExceptionGroup("patched()", errors)


@final
class _Span:
    """One session of a test, and what its patches' owners held before. Lives as long as the test."""

    def __init__(self, session: Session, further: Iterable[object]) -> None:
        self.session: Final = session
        self._further: Final = [Snapshot(owner) for owner in further]
        self._of_targets: Final[dict[int, list[Snapshot]]] = {}  # by the place among what was asked for
        self._watches: Final[list[_imports.Watch]] = []
        self._found: Final[list[str]] = []

    def begin(self) -> None:
        """Look at what is to be patched, and open the session."""
        try:
            for place, asked in enumerate(self.session._asked):
                self._look_at(place, asked)
            self.session.open()
        except BaseException:
            self._look_no_more()
            raise

    def close(self, errors: list[Exception]) -> None:
        """Close the session and compare; add what is wrong beside differences to ``errors``."""
        failed = [str(patch) for patch in self.session.report() if patch.required and patch.state == "failed"]
        if failed:
            errors.append(NotApplied(*failed))
        self._look_no_more()
        try:
            self.session.close()
        except Exception as error:
            errors.append(error)
        self._found.extend(self._differences())

    def traces(self) -> list[str]:
        """Return those of the differences at the session's end that are there still."""
        # No others: what was open beneath this session has been closed since.
        now = set(self._differences())
        return [line for line in self._found if line in now]

    def _look_at(self, place: int, asked: Asked) -> None:
        """Note what a patch's owner holds: now if it is there, and whenever its module has been executed."""
        name = asked.patch.module
        if name is None:
            self._note(place, asked, None)
            return
        # Before the session's own, which is told after this one: what is noted is what was there before the patch.
        self._watches.append(_imports.watch(name, partial(self._note, place, asked)))
        module = _imports.present(name)
        if module is not None:
            self._note(place, asked, module)

    def _note(self, place: int, asked: Asked, module: ModuleType | None) -> None:
        target = asked.patch.target
        if target is None:  # enter, on a module
            self._of_targets[place] = [Snapshot(module)]
            return
        try:
            slot = resolve(target, module, asked.owner)
        except HookpatchError:
            return  # the session tells, or skips it
        held = inner(beneath(slot)) if isinstance(slot, ItemSlot) else None
        found = [Snapshot(slot.owner)]
        if isinstance(held, FunctionType):  # it may be changed in place, and is not among its owner's attributes
            found.append(Snapshot(held, within=False))
        self._of_targets[place] = found

    def _look_no_more(self) -> None:
        while self._watches:
            self._watches.pop().cancel()

    def _differences(self) -> Iterator[str]:
        for snapshots in self._of_targets.values():
            for snapshot in snapshots:
                yield from snapshot.differences(submodules=False)
        for snapshot in self._further:
            yield from snapshot.differences()
