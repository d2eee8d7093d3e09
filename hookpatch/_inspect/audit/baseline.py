"""Write the patches of an audit as known patches, and find the new patches of a later audit."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, TypeAlias

from hookpatch._bootstrap.json import parsed, written
from hookpatch._inspect.audit.finding import Audit, AuditFinding
from hookpatch._inspect.audit.origin import PYTHON
from hookpatch.errors import SettingError

Known: TypeAlias = frozenset[tuple[str, str, str]]
_VERSION: Final = 1


def write_known(audit: Audit) -> str:
    """Return a baseline as JSON: slot, kind and author of each patch, in order. A diff shows the changes."""
    names = ("target", "kind", "who")
    entries = [dict(zip(names, _identity(finding), strict=True)) for finding in audit.findings]
    return written({"version": _VERSION, "patches": entries}, indent=1) + "\n"


def patches_in_baseline(file: Path) -> Known:
    """Return the patches of a baseline.

    Raises:
        SettingError: the file cannot be read, or is no baseline.
    """
    try:
        content: Any = parsed(file.read_text(encoding="utf-8"))
        version = content["version"]
        known = frozenset((entry["target"], entry["kind"], entry["who"]) for entry in content["patches"])
    except OSError as error:
        raise SettingError(
            "--baseline", f"{file} cannot be read: {error.strerror}; --write-baseline makes it"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SettingError("--baseline", f"{file} is no baseline; --write-baseline {file} makes it anew") from None
    if version != _VERSION:
        problem = f"{file} has version {version!r}, not {_VERSION}; --write-baseline {file} makes it anew"
        raise SettingError("--baseline", problem)
    return known


def new_in(audit: Audit, baseline: Collection[tuple[str, str, str]]) -> list[AuditFinding]:
    """Return the findings missing in a baseline."""
    return [finding for finding in audit.findings if _identity(finding) not in baseline]


def _identity(finding: AuditFinding) -> tuple[str, str, str]:
    """Return the identity of a finding in a baseline: slot, kind and author, without versions, lines and times.

    A guess is no author: the guess depends on the moment at which the recorder looked.
    """
    is_guess = finding.probable or finding.distribution == PYTHON
    return finding.target, finding.kind, finding.plugin or ("" if is_guess else finding.distribution or "")
