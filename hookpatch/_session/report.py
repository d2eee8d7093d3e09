"""The report: a frozen copy of the ledger, as text for a person and as JSON for a program."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import MethodType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap.interrupts import is_of_code
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.patch.process_end import call_guarded, raised, text_of
from hookpatch._engine.patch.target import Attribute, Target
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.reach import own_places
from hookpatch._engine.site.stand_in import is_proxy
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.holders import Holder, holders
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.referrers import classes, lists_references
from hookpatch._engine.slots.slot import ABSENT, inner, is_same_value, mro
from hookpatch._engine.slots.trial import UNSEEN
from hookpatch._session.ledger import Entry, State, compare
from hookpatch._session.overridden import overridden
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
        sought = [(entry, _sought_object(entry)) for entry in applied]
        if held := [(entry, original) for entry, original in sought if is_recognisable(original)]:
            _look_for_stale(held)
        for entry in applied:
            _note_names(entry)
            entry.differing = () if entry.applied is None else entry.applied.differences()
    first = {entry.request.home: entry for entry in reversed(entries)}
    return Report(tuple(_patch_report(entry, first.get(entry.request.home) is entry) for entry in entries))


def _sought_object(entry: Entry) -> Any:
    """Return the object whose holders call past a patch: the original, or the inherited function of the class."""
    target = entry.request.patch.target
    if entry.original is not ABSENT or target is None or not isinstance(target.slot, Attribute):
        return entry.original
    owner = _owner_of(target)
    return inner(beneath(AttributeSlot(owner, target.slot.name))) if issubclass(type(owner), type) else ABSENT


def _look_for_stale(sought: Sequence[tuple[Entry, Any]]) -> None:
    """Note the holders of the originals: one pass over all objects for all entries."""
    if not lists_references():
        for entry, _ in sought:
            entry.warnings = (*(message for message in entry.warnings if message != UNSEEN), UNSEEN)
        return
    stale: dict[int, list[Holder]] = {id(original): [] for _, original in sought}
    our_values = {id(value) for entry, _ in sought for value in entry.our_values}  # a derived subclass holds its base
    for holder in holders([*{id(original): original for _, original in sought}.values()]):
        is_named = holder.root is not None or holder.slot is None
        if is_named and id(holder.holder) not in our_values:
            stale[id(holder.thing)].append(holder)
    is_of_classes = any(isinstance(original, type) for _, original in sought)
    instances = Counter(map(id, map(type, gc.get_objects()))) if is_of_classes else {}
    for entry, original in sought:
        selected = [holder for holder in stale[id(original)] if entry.request.goes_to(holder.root)]
        if entry.original is ABSENT and (target := entry.request.patch.target) is not None:
            selected = [holder for holder in selected if _is_of_heir(holder, _owner_of(target))]
        patch = entry.request.patch  # its address: beneath the patch of a static method
        own = set().union([patch.address], *map(own_places, (patch.change, *entry.our_values)))
        selected = [holder for holder in selected if (holder.slot.key if holder.slot else holder.words) not in own]
        names = sorted(_with_count(holder, instances) for holder in selected)
        count = instances.get(id(original), 0) if entry.place is None and patch.verb != "wrap" else 0
        entry.stale = (*names, *([f"the class of {_living(count)}"] if count else ()))


def _is_of_heir(holder: Holder, owner: type) -> bool:
    """Return True for a method bound to an heir of a class, object or class; also for a name in a module."""
    if type(holder.holder) is not MethodType:
        is_name = isinstance(holder.slot, AttributeSlot) and isinstance(holder.slot.owner, ModuleType)
        return is_name and "." in getattr(holder.thing, "__qualname__", "")
    of: Any = holder.holder.__self__
    return any(cls is owner for cls in (*mro(type(of)), *(mro(of) if isinstance(of, type) else ())))


def _with_count(holder: Holder, instances: Mapping[int, int]) -> str:
    """Return the words of a holder; for a subclass with the number of living instances, deeper subclasses included."""
    is_subclass = holder.slot is None and issubclass(type(holder.holder), type)
    count = sum(instances.get(id(cls), 0) for cls in classes(holder.holder)) if is_subclass and instances else 0
    return f"{describe(holder.holder)} (a subclass, {_living(count)})" if count else holder.words


def _living(count: int) -> str:
    return f"{count} living instance{'s' * (count > 1)}"


def _note_names(entry: Entry) -> None:
    """Note the names bound from a plain value, and the subclasses that override a method."""
    target = entry.request.patch.target
    if target is None or target.module is None or not isinstance(target.slot, Attribute):
        return
    name, owner = target.slot.name, _owner_of(target)
    is_class = issubclass(type(owner), type)  # isinstance asks the owner's own code
    if is_class and entry.place is None:
        entry.overridden = overridden(owner, name, is_of_rule=entry.request.rule is not None)
    if entry.original is not None and not is_recognisable(entry.original) and entry.original is not ABSENT:
        from hookpatch._engine.patch.bound_names import baked_in, bound_from  # parses source, and is rarely needed

        is_old = partial(is_same_value, entry.original)
        if is_class:
            entry.stale = tuple(baked_in(owner, name, is_old))
        elif issubclass(type(owner), ModuleType):
            entry.stale = tuple(sorted(bound_from(target.module, name, is_old)))


def _owner_of(target: Target) -> Any:
    """Return the module or class of a target's name; None for another owner. No foreign code runs."""
    owner: Any = imports.loaded(str(target.module))
    for step in target.steps[:-1]:
        if not (isinstance(step, Attribute) and issubclass(type(owner), (ModuleType, type))):
            return None
        owner = vars(owner).get(step.name)
        while is_proxy(owner):  # a wrapped class
            owner = owner.__wrapped__
    return owner


def _patch_report(entry: Entry, is_first: bool) -> PatchReport:
    request, calls = entry.request, None if entry.tally is None else entry.tally.calls
    of_request = {name: getattr(request, name) for name in ("plugin", "distribution", "stays")}
    of_patch = {name: getattr(request.patch, name) for name in _OF_PATCH}
    of_entry = {name: getattr(entry, name) for name in _OF_ENTRY}
    of_entry |= {"warnings": entry.doubts, "reason": entry.explanation}
    notes = _notes(request.home) if is_first and request.home is not None else ()
    return PatchReport(target=request.patch.address, calls=calls, notes=notes, **of_request, **of_patch, **of_entry)


def _notes(home: str) -> tuple[str, ...]:
    """Return the plugin's notes on its patches. An error of the plugin becomes a note: no report fails by the error."""
    try:
        texts = call_guarded(_texts_of, home)
    except (Exception, KeyboardInterrupt) as error:
        if not is_of_code(error):
            raise
        texts = [f"hookpatch_report of {home} {raised(error)}{text_of(error)}"]
    return tuple(one_line(line) for text in texts for line in text.splitlines())


def _texts_of(home: str) -> list[str]:
    texts: Any = getattr(imports.loaded(home), "hookpatch_report", tuple)()
    return [*map(str, (texts,) if isinstance(texts, (str, bytes)) else texts)]
