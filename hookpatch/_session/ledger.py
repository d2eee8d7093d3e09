"""The ledger of a session: an entry for each patch at each site."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import NOT_NEEDED, Patch
from hookpatch._engine.site.layers.call_count import Tally
from hookpatch._engine.slots.slot import COUNTS_REFERENCES

State: TypeAlias = Literal[
    "waiting",
    "applied",
    "overwritten",
    "skipped",
    "failed",
    "restored",
    "unlinked",
    "dormant",
    "displaced",
    "kept",
    "unused",
]
Key: TypeAlias = tuple[str | None, str | None, str, str]  # plugin, distribution, verb, target: in any process


class Requested(NamedTuple):
    """A requested patch, with the requesting plugin.

    Attributes:
        patch: the declaration.
        plugin: the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution and version, None likewise.
        stays: why child processes lack the patch, None if child processes have the patch.
        home: the plugin's module, None likewise.
        rule: for the patch of a match, the requested rule; None for any other patch.
    """

    patch: Patch
    plugin: str | None = None
    distribution: str | None = None
    stays: str | None = None
    home: str | None = None
    rule: Requested | None = None

    def goes_to(self, module: str | None) -> bool:
        """Return True if the patch goes to the values of a module: not to modules of the patch's own plugin."""
        return self.patch.goes_to(module) and not (self.home and module and _is_beside(self.home, module, self.patch))

    @property
    def key(self) -> Key:
        """The identity of the patch in other processes."""
        return self.plugin, self.distribution, self.patch.verb, self.patch.address

    @property
    def owner(self) -> str:
        """The plugin or the block, in words for messages."""
        if self.plugin is None:
            return "a patch given to active()"
        return f"plugin '{self.plugin}' from {self.distribution}"


def _is_beside(home: str, module: str, patch: Patch) -> bool:
    """Return True if a module is a plugin's, or of the same package; a package may have plugins for itself."""
    package = home.rpartition(".")[0]
    is_for_itself = f"{patch.module}.".startswith(f"{package}.")
    return module == home or bool(package and not is_for_itself and f"{module}.".startswith(f"{package}."))


class Applied(Protocol):
    """The applied layer of a patch, or the layers of a patch of instances."""

    def compare_slots(self) -> None:
        """Compare the slots with our values, and note the state in the entry."""

    def differences(self) -> Sequence[str]:
        """Return in words the side effects of the patch on a call of the target."""


@final
@dataclass(slots=True, eq=False, weakref_slot=True)
class Entry:
    """One patch at one site, or without a site yet. ``PatchReport`` explains the other attributes.

    Attributes:
        state: *waiting* for its module, *applied*, *skipped* or *failed*; *overwritten*: a foreign value has replaced
            our value, as of the last look, or when the session ended. At the end *restored*; *unlinked*: removed
            from inside a foreign proxy; *dormant*: passes through under a foreign value; *displaced*: our value is
            left under a foreign value; *kept*: the module
            runs changed until the end of the process; *unused*: the module was never imported.
        applied: the applied layer or layers; None before the patch is applied and after its end.
        error: the class of the error that is the reason.
        original: the original, to search for *stale* holders; None without a search.
        our_values: our values in place of the original.
        without_effect: why the patch, or an argument of the patch, had no effect at the last look; else empty.
        differing: the side effects of the patch on calls, as of the last report.
        instances: the number of patched instances, in words; None for a patch of other targets.
        left_out: the unpatched instances, in words; empty if all are patched.
        overridden: the subclasses that overrode the target at the last report without a call of the target; else empty.
        caches: the caches of other functions that named the target at the last report, in words.
        former: after the end, functions that return a value that the patch has made; None for a freed one.
        references: the number of references to a function given to ``replace`` when the session was made; None for
            another value. See ``references``.
        kept: the places that held one of these at the last report after the end, in words.
        shortfall: in words, that a rule has fewer matches than required; else empty.
    """

    request: Requested
    state: State = "waiting"
    reason: str | None = None
    error: str | None = None
    place: str | None = None
    original: Any = None
    our_values: tuple[Any, ...] = ()
    applied: Applied | None = None
    differing: Sequence[str] = ()
    stale: tuple[str, ...] = ()
    tally: Tally | None = None
    warnings: tuple[str, ...] = ()
    without_effect: str = ""
    overridden: str = ""
    caches: tuple[str, ...] = ()
    former: tuple[Callable[[], Any], ...] = ()
    references: int | None = None
    kept: tuple[str, ...] = ()
    instances: str | None = None
    left_out: str = ""
    shortfall: str = ""
    applied_at: float | None = None
    ended_at: float | None = None

    @property
    def key(self) -> tuple[str | None, ...]:
        """The patch and the place, the same in each session: plugin, distribution, verb, address, place."""
        return (
            self.request.plugin,
            self.request.distribution,
            self.request.patch.verb,
            self.request.patch.address,
            self.place,
        )

    @property
    def is_needless(self) -> bool:
        """True if a patch that adds a name found the name there."""
        return self.without_effect == NOT_NEEDED

    @property
    def explanation(self) -> str | None:
        """The reason of the state; for a needless patch, that the name is there."""
        return NOT_NEEDED if self.reason is None and self.is_needless else self.reason

    @property
    def doubts(self) -> tuple[str, ...]:
        """The warnings, and where and why the patch has no effect."""
        effect = "" if self.is_needless else self.without_effect
        return (
            *self.warnings,
            *filter(None, (effect, self.overridden, self.left_out)),
            *self.caches,
            *self.kept,
            *self.differing,
        )

    @property
    def keeps_on(self) -> bool:
        """True if an interpreter made inside the block keeps the patch when the block ends."""
        return self.request.stays is None and self.request.patch.module is not None and self.applied_at is not None

    def compared(self, difference: str | None) -> None:
        """Note for an applied patch whether other code has overwritten the slot, and how."""
        if self.state in ("applied", "overwritten"):
            self.state, self.reason = ("applied", None) if difference is None else ("overwritten", difference)

    def become(self, state: State, reason: str | Exception | None = None) -> None:
        """Note the next state and the time of the change; of an error the text and the name of the class."""
        self.state = state
        if isinstance(reason, Exception):
            self.reason, self.error = str(reason), type(reason).__name__
        else:
            self.reason, self.error = reason, None
        if state == "applied":
            self.applied_at, self.ended_at = self.applied_at or time(), None
        elif self.applied_at is not None and self.ended_at is None:
            self.ended_at = time()


def references(patch: Patch) -> int | None:
    """Return the number of references to a function given to ``replace``, without those of the patch itself."""
    if patch.verb != "replace" or type(patch.change) is not FunctionType or not COUNTS_REFERENCES:
        return None
    alone = None if patch._prepared is None else patch._prepared.alone
    # The patch, and the argument of the question.
    return sys.getrefcount(patch.change) - 2 - (alone is not None and alone.value is patch.change)


def compare(entries: Iterable[Entry]) -> None:
    """Compare the slots of applied patches with the expected values, and note the states."""
    for applied in [entry.applied for entry in entries if entry.applied is not None]:
        applied.compare_slots()


# Called with changed entries: by the report file of this process.
listeners: Final[list[Callable[[Sequence[Entry]], None]]] = []


_NO_REFERENCES: Final[Mapping[int, int | None]] = {}


@final
class Ledger:
    """The entries of a session, in the order of the session's patches.

    ``references`` gives the number for an entry by the id of the Requested, or of the rule's.
    """

    __slots__ = ("_first", "_further", "_references", "changes", "holders", "imported_before", "library")

    def __init__(self, references: Mapping[int, int | None] = _NO_REFERENCES) -> None:
        self._references: Final = references
        self._first: Final[list[Entry]] = []
        # The further entries of a patch, or of a rule's matches, by the id of the Requested, kept alive by the entries.
        self._further: Final[dict[int, list[Entry]]] = {}
        self.imported_before: Mapping[str, object] = {}  # the modules noted by ``note_modules``
        # Until ``forget_looks``: the holders of all objects with reach="everywhere", and what patches keep at a moment.
        self.holders: Any = None
        self.changes: tuple[object, Any] | None = None
        # The watch that passes layers to the plugin for torch once torch is imported. GIL: set in one operation.
        self.library: Final[dict[None, imports.Watch]] = {}

    @property
    def entries(self) -> list[Entry]:
        """All entries; the entries of a patch, or of a rule, are beside each other."""
        if not self._further:
            return list(self._first)
        return [entry for first in self._first for entry in self._with_further(first)]

    def _with_further(self, first: Entry) -> Iterable[Entry]:
        yield first
        for entry in [*self._further.get(id(first.request), ())]:
            yield from (entry,) if entry.request is first.request else self._with_further(entry)

    def note_modules(self) -> None:
        """Note the imported modules when a patch with reach="everywhere" is first applied.

        A module in import is left out: the module copies the target's name after this call.
        """
        if not self.imported_before:
            self.imported_before = imports.finished()

    def forget_looks(self) -> None:
        """Forget what the patches applied together have shared."""
        self.holders = self.changes = None

    def end(self) -> None:
        """Forget all facts that a report does not need."""
        self.imported_before = {}

    def notify(self) -> None:
        """Call the listeners with all entries."""
        for listener in listeners:
            listener(self.entries)

    def open(self, request: Requested, again: bool = False) -> Entry:
        """Add the first entry of a patch, or a further entry; a match's entry is added behind the rule's entry."""
        beside = request if again else request.rule
        entries = self._first if beside is None else self._further.setdefault(id(beside), [])
        entries.append(entry := Entry(request, references=self._references.get(id(request.rule or request))))
        return entry
