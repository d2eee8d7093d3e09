"""What becomes of each patch of a session, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from hookpatch import _imports
from hookpatch._patch import Patch
from hookpatch._tally import Tally

State: TypeAlias = Literal[
    "waiting", "applied", "skipped", "failed", "restored", "unlinked", "dormant", "displaced", "unused"
]


Key: TypeAlias = tuple[str | None, str | None, str, str]  # plugin, distribution, verb, target: in any process


class Asked(NamedTuple):
    """A patch and who asked for it.

    Attributes:
        patch: the declaration.
        plugin: the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution with its version, None likewise.
        stays: why processes that are started inside the block do not have it, None if they do.
    """

    patch: Patch
    plugin: str | None = None
    distribution: str | None = None
    stays: str | None = None

    @property
    def key(self) -> Key:
        """What it is known by in other processes."""
        return self.plugin, self.distribution, self.patch.verb, self.patch.address

    @property
    def owner(self) -> str:
        """How messages name who asked."""
        if self.plugin is None:
            return "a patch given to active()"
        return f"plugin '{self.plugin}' from {self.distribution}"


@final
@dataclass(slots=True, eq=False, weakref_slot=True)
class Entry:
    """One patch at one site, or one that has no site yet.

    Attributes:
        asked: the patch and who asked for it.
        state: *waiting* for its module, *applied*, *skipped* or *failed* for a reason; at the end *restored*,
            *unlinked* (taken out from beneath somebody else's proxy),
            *dormant* (something of somebody else's lies over it; it passes through), *displaced* (somebody put
            something else there, which was left alone) or *unused* (its module was never imported).
        reason: why, for the states that need one.
        place: where, when that is not the target but another holder that reach="everywhere" found.
        held: what stood there, whose other holders are *stale*; None for what is not looked for.
        put: what stands there instead.
        stale: who else held it when it was last looked at.
        tally: its calls, None where none are counted.
        warnings: what speaks against it although it was applied.
        applied_at: when it was applied, in seconds since 1970; None if it never was.
        ended_at: when it ended after that, None if it has not.
    """

    asked: Asked
    state: State = "waiting"
    reason: str | None = None
    place: str | None = None
    held: Any = None
    put: tuple[Any, ...] = ()
    stale: tuple[str, ...] = ()
    tally: Tally | None = None
    warnings: tuple[str, ...] = ()
    applied_at: float | None = None
    ended_at: float | None = None

    def become(self, state: State, reason: str | None = None) -> None:
        """Note the next state, and since when."""
        self.state = state
        self.reason = reason
        if state == "applied":
            self.applied_at, self.ended_at = self.applied_at or time(), None
        elif self.applied_at is not None and self.ended_at is None:
            self.ended_at = time()


# Who hears of entries when what changed them is through: the receipt of this process.
listeners: Final[list[Callable[[Sequence[Entry]], None]]] = []


@final
class Ledger:
    """The entries of one session, in the order in which the patches were asked for."""

    __slots__ = ("_first", "_further", "_were_there")

    def __init__(self) -> None:
        self._first: Final[list[Entry]] = []
        # Of those that have more than one, by the number of what was asked for, which the entries keep.
        self._further: Final[dict[int, list[Entry]]] = {}
        self._were_there: frozenset[str] | None = None

    @property
    def entries(self) -> list[Entry]:
        """All entries; those of one patch beside each other."""
        if not self._further:
            return list(self._first)
        return [one for first in self._first for one in (first, *self._further.get(id(first.asked), ()))]

    @property
    def were_there(self) -> frozenset[str]:
        """The names of the modules that were imported when this was first asked: by a patch that goes everywhere."""
        if self._were_there is None:
            self._were_there = _imports.names()
        return self._were_there

    def end(self) -> None:
        """Keep what a report needs, and no more."""
        self._were_there = None

    def tell(self) -> None:
        """Have those who listen hear of all entries."""
        for listener in listeners:
            listener(self.entries)

    def open(self, asked: Asked) -> Entry:
        """Add the first entry of a patch."""
        self._first.append(entry := Entry(asked))
        return entry

    def open_again(self, asked: Asked) -> Entry:
        """Add an entry for a patch that has some, after those."""
        self._further.setdefault(id(asked), []).append(entry := Entry(asked))
        return entry
