"""Compare owners and process before and after a block: the block must leave no trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import NoneType
from typing import Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import a_kind
from hookpatch.errors import SettingError
from hookpatch.testing._leaks import footprint, lines_beyond
from hookpatch.testing._snapshot import Snapshot, changed_entries, with_identity

_UNCHANGING: Final = (NoneType, bool, int, float, str, bytes, tuple, frozenset)


class NotPristine(AssertionError):
    """A block left a trace.

    Attributes:
        differences: a line for each difference.
    """

    def __init__(self, *differences: str) -> None:
        super().__init__(*differences)
        self.differences = differences

    def __str__(self) -> str:
        return "\n  ".join([f"{len(self.differences)} not as before:", *self.differences])


def pristine(*owners: object, order: bool = False) -> AbstractContextManager[None]:
    """Return a context manager that compares owners and process before and after its block.

    Of each owner, by identity: type, attributes (in ``__dict__`` and in slots; the bases of a class), items and the
    order of items. Of Python functions among the attributes: code, defaults and attributes; of a function as owner also
    its closure. Of the process: ``sys.meta_path``, and the open sessions, patched slots, awaited modules and late
    restores of hookpatch. The comparison runs no property and loads no lazy module.

    Args:
        *owners: modules, classes, functions, mappings, lists and other objects.
        order: True to compare the order of attributes, too. Restoring a removed attribute puts the attribute last.

    Raises:
        NotPristine: there is a difference. An error raised in the block propagates, with the differences as a note.
        SettingError: an owner has no attributes to set, such as a text.
    """
    for owner in owners:
        refuse_unchanging(owner, "pristine()")
    return _Block(owners, order)


def refuse_unchanging(owner: object, asked_by: str) -> None:
    """Refuse an owner without attributes to set."""
    if type(owner) in _UNCHANGING:
        raise SettingError(asked_by, f"takes modules, classes, mappings and objects, not {a_kind(owner)}")


@final
class _Block:
    __slots__ = ("_before", "_finders", "_order", "_owners", "_snapshots")

    def __init__(self, owners: Sequence[object], order: bool) -> None:
        self._owners: Final = owners
        self._order: Final = order

    def __enter__(self) -> None:
        self._before = footprint()
        self._finders = imports.finders(ours=False)
        self._snapshots = [Snapshot(owner) for owner in self._owners]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        if differences := tuple(self._differences()):
            failure = NotPristine(*differences)
            if error is None:
                raise failure
            error.add_note(str(failure))

    def _differences(self) -> Iterator[str]:
        ours = list(lines_beyond(self._before))  # first: runs late restores, which change the owners
        for snapshot in self._snapshots:
            yield from snapshot.differences(self._order)
        for place, was, finder in changed_entries(self._finders, imports.finders(ours=False)):
            yield f"sys.meta_path[{place}] was {with_identity(was)}, is {with_identity(finder)}"
        yield from ours
