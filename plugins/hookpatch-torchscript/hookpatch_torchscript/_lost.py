"""The branch that a trace has lost, by the export scan, if hookpatch-export is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from hookpatch_torchscript._record import Place
from hookpatch_torchscript._verdict import Lost

SCANNED: Final = find_spec("hookpatch_export") is not None


def lost(called: Callable[..., Any], example: Callable[[], object], other: Callable[[], object]) -> Lost | None:
    """Return the line on which a run with another input goes another way than that with the example.

    Args:
        called: what was traced.
        example: runs it with the example.
        other: runs it with the other input.
    """
    if not SCANNED:
        return None
    from hookpatch_export import parting  # not installed everywhere

    try:
        found = parting(called, example, other)
    except Exception:  # the scan's own mistake; the disagreement is one without it
        return None
    if found is None:
        return None
    place = Place(str(found.file), found.line, found.source)
    if found.finding is None:
        return Lost(place)
    return Lost(place, found.finding.consequence.get("trace", ""), found.finding.instead)
