"""What became of each patch, for a person and for a program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from hookpatch import _environment
from hookpatch._holders import holders
from hookpatch._ledger import Entry, State
from hookpatch._leftover import is_recognisable


@final
@dataclass(frozen=True, slots=True)
class PatchReport:
    """What became of one patch at one site. Frozen.

    Attributes:
        plugin: the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution with its version, None likewise.
        target: the address.
        verb: the verb of the patch.
        state: waiting, applied, skipped, failed; at the end restored, unlinked, dormant, displaced, unused.
        reason: why it was skipped, failed or ended otherwise than restored; None else.
        place: where, when that is not the target but another holder that ``reach="everywhere"`` found; None else.
        stale: names bound before that hold the original still, and call past the patch: with ``reach="slot"`` all of
            them, with ``reach="everywhere"`` those that cannot be set. As of the last report made while it was
            applied; local variables of running functions are not among them.
        calls: the calls it received by mode where they are counted: each one made in *eager* mode, and of *compile*,
            *export*, *trace* and *script* how often one was captured. None where they are not counted.
        stays: why processes that are started inside the block do not have it; None if they do.
        warnings: what speaks against it although it was applied: it is not needed any more (``until=``), or its target
            is no longer what was locked.
        why: what the patch says is wrong at the target.
        upstream: the link it gives.
        required: False if the program may run without it.
        required_calls: how many calls it has to receive; 0 if none.
        applied_at: when it was applied, in seconds since 1970; None if it never was.
        ended_at: when it ended after that, None if it has not.
    """

    plugin: str | None
    distribution: str | None
    target: str
    verb: str
    state: State
    reason: str | None
    place: str | None
    stale: tuple[str, ...]
    calls: dict[str, int] | None
    stays: str | None
    warnings: tuple[str, ...]
    why: str | None
    upstream: str | None
    required: bool = True
    required_calls: int = 0
    applied_at: float | None = None
    ended_at: float | None = None

    @property
    def calls_in_words(self) -> str:
        """The counted calls for a person."""
        calls = self.calls or {}
        return ", ".join(f"{count} {_DONE[mode]}" for mode, count in calls.items()) or "never called"

    @property
    def reasons(self) -> str:
        """What the patch says for itself: what is wrong at the target, and the link; empty if it says nothing."""
        return "; ".join(filter(None, (self.why, self.upstream)))

    def __str__(self) -> str:
        at = f" at {self.place}" if self.place else ""
        text = f"{self.state:<9} {self.verb:<7} {self.target}{at}  ({self.plugin or 'active()'})"
        lines = [f"{text}: {self.reason}" if self.reason else text]
        stale = self.stale if self.state == "applied" else ()
        if self.calls is not None:
            lines.append(f"{'':<9} calls   {self.calls_in_words}")
        lines += (f"{'':<9} warning {text}" for text in self.warnings)
        if self.reasons:
            lines.append(f"{'':<9} why     {self.reasons}")
        if self.stays is not None:
            lines.append(f"{'':<9} stays   in this process: {self.stays}")
        return "\n".join([*lines, *(f"{'':<9} stale   {name} holds the original still" for name in stale)])


_DONE: Final = {
    "eager": "made",
    "compile": "captured by torch.compile",
    "export": "captured by torch.export",
    "trace": "captured by torch.jit.trace",
    "script": "captured by torch.jit.script",
}


@final
@dataclass(frozen=True, slots=True)
class Report:
    """A frozen copy of a ledger. Iterating gives the patches; its text is a line a patch.

    Attributes:
        patches: one ``PatchReport`` for each patch and site, in the order asked for.
    """

    patches: tuple[PatchReport, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report of this process as the JSON schema has it: ``{"processes": [{..., "patches": [...]}]}``."""
        return {"processes": [{**this_process(), "patches": [asdict(patch) for patch in self.patches]}]}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._json import written  # few ask for it; what is patched from outside starts faster without

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[PatchReport]:
        return iter(self.patches)

    def __str__(self) -> str:
        return "\n".join(map(str, self.patches)) or "no patches"


def this_process() -> dict[str, Any]:
    """Return what is said of this process."""
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "host": _environment.host(),
        "rank": _environment.rank(),
        "argv": list(getattr(sys, "argv", sys.orig_argv)),
    }


def report_of(entries: Iterable[Entry], look: bool = True) -> Report:
    """Return the report of some entries as they are now; ``look``: for who holds the originals, too."""
    entries = list(entries)
    if look:
        _look_for_stale([entry for entry in entries if entry.state == "applied" and is_recognisable(entry.held)])
    return Report(tuple(map(_patch_report, entries)))


def _look_for_stale(entries: Sequence[Entry]) -> None:
    """Note who holds what the patches were put in the place of: one look at all objects for all of them."""
    if not entries:
        return
    stale: dict[int, list[str]] = {id(entry.held): [] for entry in entries}
    put = {id(one) for entry in entries for one in entry.put}  # a subclass that was put there holds its base
    for holder in holders([*{id(entry.held): entry.held for entry in entries}.values()]):
        if id(holder.holder) not in put and (holder.root is not None or holder.slot is None):  # not one without a name
            stale[id(holder.thing)].append(holder.words)
    for entry in entries:
        entry.stale = tuple(sorted(stale[id(entry.held)]))


def _patch_report(entry: Entry) -> PatchReport:
    asked, patch = entry.asked, entry.asked.patch
    return PatchReport(
        plugin=asked.plugin,
        distribution=asked.distribution,
        target=patch.address,
        verb=patch.verb,
        state=entry.state,
        reason=entry.reason,
        place=entry.place,
        stale=entry.stale,
        calls=None if entry.tally is None else entry.tally.calls,
        stays=asked.stays,
        warnings=entry.warnings,
        why=patch.why,
        upstream=patch.upstream,
        required=patch.required,
        required_calls=patch.required_calls,
        applied_at=entry.applied_at,
        ended_at=entry.ended_at,
    )
