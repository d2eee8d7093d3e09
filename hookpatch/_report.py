"""What became of each patch, for a person and for a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, final

from hookpatch._ledger import Entry, State


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
        why: what the patch says is wrong at the target.
        upstream: the link it gives.
    """

    plugin: str | None
    distribution: str | None
    target: str
    verb: str
    state: State
    reason: str | None
    why: str | None
    upstream: str | None

    def __str__(self) -> str:
        text = f"{self.state:<9} {self.verb:<7} {self.target}  ({self.plugin or 'active()'})"
        return f"{text}: {self.reason}" if self.reason else text


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
        process = {
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "argv": list(getattr(sys, "argv", sys.orig_argv)),
            "patches": [asdict(patch) for patch in self.patches],
        }
        return {"processes": [process]}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[PatchReport]:
        return iter(self.patches)

    def __str__(self) -> str:
        return "\n".join(map(str, self.patches)) or "no patches"


def report_of(entries: Iterable[Entry]) -> Report:
    """Return the report of some entries as they are now."""
    return Report(tuple(map(_patch_report, entries)))


def _patch_report(entry: Entry) -> PatchReport:
    asked, patch = entry.asked, entry.asked.patch
    return PatchReport(
        plugin=asked.plugin,
        distribution=asked.distribution,
        target=patch.address,
        verb=patch.verb,
        state=entry.state,
        reason=entry.reason,
        why=patch.why,
        upstream=patch.upstream,
    )
