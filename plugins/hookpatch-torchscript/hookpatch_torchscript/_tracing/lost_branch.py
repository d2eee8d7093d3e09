"""Find the branch that a trace has lost, with the scan of hookpatch-export if installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.verdict import Lost

SCANNED: Final = find_spec("hookpatch_export") is not None


def lost(called: Callable[..., Any], example: Callable[[], object], other: Callable[[], object]) -> Lost | None:
    """Return the line where a run with another input leaves the path of the run with the example.

    Args:
        called: the traced model or function.
        example: runs it with the example.
        other: runs it with the other input.
    """
    if not SCANNED:
        return None
    from hookpatch_export import parting  # optional

    try:
        found = parting(called, example, other)
    except Exception:  # an error of the scan itself; the disagreement stands without a line
        return None
    if found is None:
        return None
    place = Place(str(found.file), found.line, found.source)
    if found.finding is None:
        return Lost(place)
    return Lost(place, found.finding.consequence.get("trace", ""), found.finding.instead)
