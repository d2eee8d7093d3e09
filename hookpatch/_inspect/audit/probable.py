"""Guess the author of a patch whose value names no author."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, final

from hookpatch._engine.slots.slot import mro
from hookpatch._inspect.audit.finding import AuditFinding
from hookpatch._inspect.audit.origin import PYTHON, Origin, is_foreign, origin_of
from hookpatch._inspect.audit.snapshot import names_of_class


def author_of_removal(owner: Any, name: str, home_of: Callable[[Any], Origin]) -> Origin:
    """Return the author of the patched method that a class inherits since its own method is gone; else unknown.

    Args:
        owner: the class; a module inherits nothing.
        name: the removed name.
        home_of: returns the origin of a class.
    """
    for base in mro(owner)[1:] if issubclass(type(owner), type) else ():
        if name in (names := names_of_class(base)):
            origin = origin_of(names[name])
            return Origin(origin.distribution) if is_foreign(origin, home_of(base)) else Origin()
    return Origin()


@final
class AuthorByTime:
    """The only known author of patches between two imports, as the probable author of all patches between the two.

    An author is a distribution and its version; None for the program's own files.
    """

    def __init__(self, findings: Iterable[AuditFinding]) -> None:
        self._authors: Final[dict[str | None, set[tuple[str | None, str | None]]]] = {}
        for finding in findings:
            is_known = finding.place if finding.distribution is None else finding.distribution != PYTHON
            if is_known and finding.plugin is None:
                self._authors.setdefault(finding.when, set()).add((finding.distribution, finding.version))

    def completed(self, finding: AuditFinding) -> AuditFinding:
        """Return the finding with its probable author, unless the author is known."""
        authors = self._authors.get(finding.when, set())
        is_unknown = finding.distribution == PYTHON or (finding.distribution is None and finding.place is None)
        if finding.when is None or finding.plugin is not None or not is_unknown or len(authors) != 1:
            return finding
        [(distribution, version)] = authors
        return replace(finding, distribution=distribution, version=version, probable=True)
