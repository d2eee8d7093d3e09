"""The report: a frozen copy of the ledger, as text for a person and as JSON for a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.interrupts import is_of_code
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.process_end import call_guarded, raised, text_of
from hookpatch._session.findings.kept_values import note_kept
from hookpatch._session.findings.stale import note_caches, note_stale
from hookpatch._session.ledger import Entry, State, compare
from hookpatch._session.span.leftovers import finish_postponed
from hookpatch.errors import one_line

_OF_PATCH: Final = ("verb", "why", "upstream", "callers", "required", "required_calls", "rule")
_OF_ENTRY: Final = ("state", "reason", "place", "stale", "instances", "applied_at", "ended_at")


@final
@dataclass(frozen=True, slots=True)
class PatchReport:
    """The state of one patch at one site. Frozen.

    Attributes:
        plugin: the plugin's name, None for a patch given to ``active``.
        distribution: the plugin's distribution with its version, None likewise.
        target: the address.
        verb: the verb of the patch.
        state: waiting, applied, overwritten, skipped, failed; at the end restored, overwritten, unlinked, dormant,
            displaced, kept, unused. Compared with the slot when the report is made.
        reason: why the patch was skipped, failed or ended otherwise than restored; by which value, from which file and
            line, it was overwritten; None else.
        place: the place that ``reach="everywhere"`` found beside the target; None for the target itself.
        stale: names bound before that hold the original still, and call past the patch. With ``reach="slot"`` all of
            them, with ``reach="everywhere"`` those that cannot be set. As of the last report while the patch was
            applied; without local variables of running functions.
        calls: the counted calls by mode: each call in *eager* mode, and the captures of a call in *compile*,
            *export*, *trace* and *script* mode. None if calls are not counted.
        stays: why child processes do not have the patch; None if they do.
        warnings: the doubts about an applied patch: ``until=`` says that the patch is no longer needed, the target
            differs from the locked target, or the patch has no effect.
        notes: what the plugin's patches have done, in the plugin's words; at the first patch of the plugin.
        why: the patch's own account of the fault at the target.
        upstream: the link given by the patch.
        callers: patterns of the modules whose calls have the patch; empty if all have.
        required: False if the program may run without the patch.
        required_calls: the least number of calls; 0 if none is required.
        instances: for an address such as ``m:Class().name`` how many instances are alive, and how many were made
            inside; None for any other.
        applied_at: when the patch was applied, in seconds since 1970; None if never.
        ended_at: when the applied patch ended; None if it has not.
        rule: the address of the rule that stands for the target; None if the target was named itself.
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
    callers: tuple[str, ...] = ()
    required: bool = True
    required_calls: int = 0
    instances: str | None = None
    applied_at: float | None = None
    ended_at: float | None = None
    rule: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def calls_in_words(self) -> str:
        """The counted calls for a person."""
        calls = self.calls or {}
        return ", ".join(f"{count} {_DONE.get(mode, mode)}" for mode, count in calls.items()) or "never called"

    @property
    def reasons(self) -> str:
        """The patch's own reasons: the fault at the target, and the link; empty if none are given."""
        return "; ".join(filter(None, (self.why, self.upstream)))

    def __str__(self) -> str:
        place = f" at {self.place}" if self.place else ""
        text = f"{self.state:<9} {self.verb:<7} {self.target}{place}  ({self.plugin or 'active()'})"
        lines = [f"{text}: {self.reason}" if self.reason else text]
        if self.callers:
            lines.append(f"{'':<9} callers {', '.join(self.callers)}")
        if self.instances is not None:
            lines.append(f"{'':<9} patched {self.instances}")
        if self.calls is not None:
            lines.append(f"{'':<9} calls   {self.calls_in_words}")
        lines += (f"{'':<9} note    {text}" for text in self.notes)
        lines += (f"{'':<9} warning {text}" for text in self.warnings)
        if self.reasons:
            lines.append(f"{'':<9} why     {self.reasons}")
        if self.stays is not None:
            lines.append(f"{'':<9} stays   in this process: {self.stays}")
        stale = self.stale if self.state == "applied" else ()
        return "\n".join([*lines, *(f"{'':<9} stale   {name} holds the original still" for name in stale)])


_DONE: Final = {
    "eager": "made",
    "compile": "captured by torch.compile",
    "export": "captured by torch.export",
    "trace": "captured by torch.jit.trace",
    "script": "captured by torch.jit.script",
    "cuda graph": "captured by a CUDA graph",
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
        from hookpatch._bootstrap.json import written  # here, since most programs need no JSON

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[PatchReport]:
        return iter(self.patches)

    def __str__(self) -> str:
        return "\n".join(map(str, self.patches)) or "no patches"


def this_process() -> dict[str, Any]:
    """Return the facts of this process for a report."""
    from hookpatch._bootstrap.command_line import of_this_process  # here: needed for JSON and report files only

    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "host": environment.host(),
        "rank": environment.rank(),
        "argv": of_this_process(),
    }


def report_of(entries: Iterable[Entry], look: bool = True) -> Report:
    """Return the report of entries as of now; ``look``: with the names that still hold the originals."""
    entries = list(entries)
    compare(entries)
    if look:
        applied = [entry for entry in entries if entry.state == "applied" and not entry.is_needless]
        note_stale(applied)
        note_caches([entry for entry in entries if entry.applied_at is not None and not entry.is_needless])
        note_kept([entry for entry in entries if entry.state == "restored"])
        for entry in applied:
            entry.differing = () if entry.applied is None else entry.applied.differences()
        finish_postponed()  # of sessions collected in the middle of a search
    by_home: dict[str | None, list[Entry]] = {}
    for entry in entries:
        by_home.setdefault(entry.request.home, []).append(entry)
    firsts = {of_home[0]: of_home for home, of_home in by_home.items() if home is not None}
    return Report(tuple(_patch_report(entry, firsts.get(entry, ())) for entry in entries))


def _patch_report(entry: Entry, of_home: Sequence[Entry]) -> PatchReport:
    """Return the report of a patch; ``of_home``: all entries of its plugin for the first of them, none for others."""
    request, calls = entry.request, None if entry.tally is None else entry.tally.calls
    of_request = {name: getattr(request, name) for name in ("plugin", "distribution", "stays")}
    of_patch = {name: getattr(request.patch, name) for name in _OF_PATCH}
    of_entry = {name: getattr(entry, name) for name in _OF_ENTRY}
    of_entry |= {"warnings": entry.doubts, "reason": entry.explanation}
    patches = [entry.request.patch for entry in of_home]
    notes = _notes(request.home, patches) if patches and request.home is not None else ()
    return PatchReport(target=request.patch.address, calls=calls, notes=notes, **of_request, **of_patch, **of_entry)


def _notes(home: str, patches: Sequence[Patch]) -> tuple[str, ...]:
    """Return the plugin's notes on its patches. An error of the plugin becomes a note: no report fails by the error."""
    try:
        texts = call_guarded(_texts_of, home, patches)
    except (Exception, KeyboardInterrupt) as error:
        if not is_of_code(error):
            raise
        texts = [f"hookpatch_report of {home} {raised(error)}{text_of(error)}"]
    return tuple(one_line(line) for text in texts for line in text.splitlines())


def _texts_of(home: str, patches: Sequence[Patch]) -> list[str]:
    report: Any = getattr(imports.loaded(home), "hookpatch_report", tuple)
    code = getattr(report, "__code__", None)
    takes_patches = code is not None and "patches" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    texts: Any = report(patches=tuple(patches)) if takes_patches else report()
    return [*map(str, (texts,) if isinstance(texts, (str, bytes)) else texts)]
