"""Name the probable author of a patch, by the time of other patches, if the value does not show the author."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, final

from hookpatch._inspect.audit.finding import AuditFinding
from hookpatch._inspect.audit.origin import PYTHON


@final
class ByTime:
    """The only distribution that patched slots between two imports, as the author of a value of unknown author."""

    def __init__(self, findings: Iterable[AuditFinding]) -> None:
        self._authors: Final[dict[str | None, set[tuple[str, str | None]]]] = {}
        for finding in findings:
            if finding.distribution not in (None, PYTHON) and finding.plugin is None:
                self._authors.setdefault(finding.when, set()).add((str(finding.distribution), finding.version))

    def completed(self, finding: AuditFinding) -> AuditFinding:
        """Return the finding with its probable author, unless the author is known."""
        authors = self._authors.get(finding.when, set())
        is_unknown = finding.distribution == PYTHON or (finding.distribution is None and finding.place is None)
        if finding.plugin is not None or not is_unknown or len(authors) != 1:
            return finding
        [(distribution, version)] = authors
        return replace(finding, distribution=distribution, version=version, probable=True)
