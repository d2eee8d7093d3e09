"""Find the lines of a model that do not survive its export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookpatch_export._findings.finding import MODES, Finding, Kind

if TYPE_CHECKING:
    from hookpatch_export._probe.divergence import partings
    from hookpatch_export._scan.scan import scan

__all__ = ["MODES", "Finding", "Kind", "partings", "scan"]


if not TYPE_CHECKING:  # else a type checker accepts any name, by __getattr__

    def __getattr__(name: str) -> object:
        if name == "scan":  # imports torch; the plugin export_scan is loaded while torch is being imported
            from hookpatch_export._scan.scan import scan

            return scan
        if name == "partings":  # likewise
            from hookpatch_export._probe.divergence import partings

            return partings
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
