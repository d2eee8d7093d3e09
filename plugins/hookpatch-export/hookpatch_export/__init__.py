"""Which line of a model will not survive its export."""

from __future__ import annotations

from hookpatch_export._finding import MODES, Finding, Kind

__all__ = ["MODES", "Finding", "Kind"]
