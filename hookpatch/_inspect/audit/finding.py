"""The result of an audit: a finding for each patched slot, as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, final

HOOKPATCH: Final = "hookpatch"
_PACKAGES: Final = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")


@final
@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A slot with another value than the module's execution left in the slot. Frozen.

    Attributes:
        target: the address of the slot; ``sys.modules[name]`` for an entry of ``sys.modules``; the
            function that sets a trace function; the address of a loader.
        kind: ``"replaced"``; ``"overridden"``: a new method hides an inherited one; ``"removed"``; ``"code"``: the
            function is the same and runs other code; ``"module"``: ``sys.modules`` has another module;
            ``"added"``: a new builtin name, with ``--all`` any new name; ``"entry"``, with ``--all`` alone: another
            entry in a dictionary of a module or class; ``"trace"``: a trace function is set; ``"source"``: a loader
            changes the source of modules.
        before: the original value in words; None if there was none; ``"not known"`` if only its existence is known.
        now: the present value in words; None if there is none.
        distribution: the distribution that defines the present value; ``"Python"`` for the standard library; None for
            the program's own files, and if unknown.
        version: the version of the distribution; None if unknown.
        place: the definition of the present value, as ``file:line``; None if unknown.
        assigned_at: ``file:line`` of the observed statement that changed the slot; None if no statement was observed.
        plugin: the plugin of hookpatch that made the patch, ``"active()"`` without a plugin; None if foreign.
        probable: True if the author is a guess: no other author patched between the same imports, or the author has
            patched the method that the class inherits since its own was removed.
        when: the imports between which the change was first seen.
        layers: the number of wrappers over the original, 0 if the original is not beneath.
        stale: other names that still hold the original.
        undo: how the original value can come back: ``"session"``, ``"mock"``, ``"__wrapped__"``; None if unknown.
    """

    target: str
    kind: str
    before: str | None = None
    now: str | None = None
    distribution: str | None = None
    version: str | None = None
    place: str | None = None
    assigned_at: str | None = None
    plugin: str | None = None
    probable: bool = False
    when: str | None = None
    layers: int = 0
    stale: tuple[str, ...] = ()
    undo: str | None = None

    @property
    def who(self) -> str:
        """Return the author in words: plugin, distribution, or file."""
        if self.plugin is not None:
            return f"hookpatch {self.plugin}"
        author = "the program" if self.place or self.probable else "unknown"
        if self.distribution is not None:
            author = f"{self.distribution} {self.version}" if self.version else self.distribution
        return f"probably {author}" if self.probable else author

    def __str__(self) -> str:
        lines = [f"{self.kind:<10} {self.target}  by {self.who}"]
        change = f"{self.before or 'nothing'} -> {self.now or 'nothing'}"
        is_said = not self.place or self.place in (self.now or "")  # new code is named by its place
        lines.append(f"    {change}" + ("" if is_said else f"  at {in_packages(self.place)}"))
        facts = [f"assigned at {in_packages(self.assigned_at)}"] if self.assigned_at else []
        facts += [self.when] if self.when else []
        facts += [f"{self.layers} layers"] if self.layers > 1 else []
        facts += [f"undo: {self.undo}"] if self.undo else []
        if self.stale:
            remainder = f" and {len(self.stale) - 3} more" if len(self.stale) > 3 else ""
            facts.append(f"the original is still in {', '.join(self.stale[:3])}{remainder}")
        return "\n".join([*lines, *([f"    {'; '.join(facts)}"] if facts else [])])


@final
@dataclass(frozen=True, slots=True)
class Audit:
    """The patches in a process. Frozen; iterating gives the findings, ``str()`` their lines.

    Attributes:
        findings: a finding for each slot, by address.
        recorded: True if each module was noted at the end of its execution. If False, patches were found by provenance
            alone, and some may be missing.
        modules: the number of modules compared.
        seconds: the time spent on notes, and the time spent on the comparison.
    """

    findings: tuple[AuditFinding, ...]
    recorded: bool = True
    modules: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes by name, as in the JSON schema."""
        return asdict(self)

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._bootstrap.json import written  # needed for JSON only

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[AuditFinding]:
        return iter(self.findings)

    @property
    def heading(self) -> str:
        """Return the number of patches, with a warning if some may be missing."""
        count = len(self.findings)
        note = "" if self.recorded else "; by provenance alone, so some may be missing: run hookpatch audit for all"
        return f"{count} slot{'' if count == 1 else 's'} patched, in {self.modules} modules{note}"

    def __str__(self) -> str:
        return "\n".join([self.heading, *map(str, self.findings)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the lines in a terminal of IPython."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the findings as a table for a notebook, without a style sheet."""
        from html import escape  # needed in notebooks only

        rows = [("kind", "slot", "by", "before", "now", "at")]
        rows += [
            (item.kind, item.target, item.who, item.before or "", item.now or "", in_packages(item.place))
            for item in self
        ]
        cells = [[f'<td style="text-align: left">{escape(text)}</td>' for text in row] for row in rows]
        table = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        return f"<p>{escape(self.heading)}</p>" + (f"<table>{table}</table>" if self.findings else "")


def in_packages(place: str | None) -> str:
    """Return a place as seen from the folder of installed packages; empty without a place."""
    return _PACKAGES.sub("", place or "")


def audit_from(content: Mapping[str, Any]) -> Audit:
    """Return an audit that ``to_dict`` has written as JSON; other content raises KeyError or TypeError."""
    names = {field.name for field in fields(AuditFinding)}
    findings = []
    for entry in content["findings"]:
        values: dict[str, Any] = {name: value for name, value in entry.items() if name in names}
        findings.append(AuditFinding(**{**values, "stale": tuple(values["stale"])}))
    first, second = content["seconds"]
    return Audit(tuple(findings), bool(content["recorded"]), int(content["modules"]), (float(first), float(second)))
