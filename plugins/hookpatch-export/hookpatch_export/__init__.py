"""Which line of a model will not survive its export."""

from __future__ import annotations

from hookpatch_export._finding import MODES, Finding, Kind
from hookpatch_export._scan import scan

__all__ = ["MODES", "Finding", "Kind", "scan"]
