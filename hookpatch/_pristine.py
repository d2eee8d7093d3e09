"""Whether a block leaves no trace: what owners and the process held before it, compared with what they hold after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import NoneType
from typing import Final, final

from hookpatch import _imports
from hookpatch._footprint import footprint, lines_beyond
from hookpatch._snapshot import Snapshot, changed_entries, in_words
from hookpatch._target import a_kind
from hookpatch.errors import SettingError

_UNCHANGING: Final = (NoneType, bool, int, float, str, bytes, tuple, frozenset)


class NotPristine(AssertionError):
    """A block left a trace.

    Attributes:
        differences: a line for each.
    """

    def __init__(self, *differences: str) -> None:
        super().__init__(*differences)
        self.differences = differences

    def __str__(self) -> str:
        return "\n  ".join([f"{len(self.differences)} not as before:", *self.differences])


def pristine(*owners: object, order: bool = False) -> AbstractContextManager[None]:
    """Return a context manager that compares, after its block, with what was there before.

    Compared are of each owner its type, its attributes (those in ``__dict__``, those in slots, of a class also its
    bases), its items and their order, each by identity; of the Python functions among them the code, the defaults
    and the attributes, of a function that is an owner its closure, too. Of the process: ``sys.meta_path``; and
    hookpatch has no session open, no slot patched, no module waited for and nothing left beneath somebody else's
    value that it had not before. Nothing is woken: no property runs, no lazy module is loaded.

    Args:
        *owners: modules, classes, functions, mappings, lists and other objects.
        order: True to compare the order of attributes, too. An attribute that a patch removed comes back as the last.

    Raises:
        NotPristine: something is not as it was. If the block raises itself, its error goes on with that as a note.
        SettingError: an owner is one in which nothing can be set, such as a text.
    """
    for owner in owners:
        refuse_unchanging(owner, "pristine()")
    return _Block(owners, order)


def refuse_unchanging(owner: object, asked_by: str) -> None:
    """Refuse an owner in which nothing can be set.

    Raises:
        SettingError: it is one.
    """
    if type(owner) in _UNCHANGING:
        raise SettingError(asked_by, f"takes modules, classes, mappings and objects, not {a_kind(owner)}")


@final
class _Block:
    """What was there when a block began. Lives as long as the block."""

    __slots__ = ("_before", "_finders", "_order", "_owners", "_snapshots")

    def __init__(self, owners: Sequence[object], order: bool) -> None:
        self._owners: Final = owners
        self._order: Final = order

    def __enter__(self) -> None:
        self._before = footprint()
        self._finders = _imports.finders(ours=False)
        self._snapshots = [Snapshot(owner) for owner in self._owners]

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        found = tuple(self._differences())
        if found and error is None:
            raise NotPristine(*found)
        if found and error is not None:
            error.add_note(str(NotPristine(*found)))

    def _differences(self) -> Iterator[str]:
        ours = list(lines_beyond(self._before))  # first: it gives back what can be by now
        for snapshot in self._snapshots:
            yield from snapshot.differences(self._order)
        for place, was, now in changed_entries(self._finders, _imports.finders(ours=False)):
            yield f"sys.meta_path[{place}] was {in_words(was)}, is {in_words(now)}"
        yield from ours
