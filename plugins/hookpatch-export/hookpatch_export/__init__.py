"""Which line of a model will not survive its export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookpatch_export._finding import MODES, Finding, Kind

if TYPE_CHECKING:
    from hookpatch_export._parting import parting
    from hookpatch_export._scan import scan

__all__ = ["MODES", "Finding", "Kind", "parting", "scan"]


if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "scan":  # it needs torch, and the plugin export_scan is loaded while torch is being imported
            from hookpatch_export._scan import scan

            return scan
        if name == "parting":  # likewise
            from hookpatch_export._parting import parting

            return parting
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
