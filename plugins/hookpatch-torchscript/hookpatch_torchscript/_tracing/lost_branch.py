"""Find the branch that a trace has lost, with the scan of hookpatch-export if installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.verdict import Lost

SCANNED: Final = find_spec("hookpatch_export") is not None


def lost(called: Callable[..., Any], example: Callable[[], object], variant: Callable[[], object]) -> Lost | None:
    """Return the line where a run with another input leaves the path of the run with the example.

    Args:
        called: the traced model or function.
        example: runs it with the example.
        variant: runs it with the other input.
    """
    if not SCANNED:
        return None
    from hookpatch_export import parting  # optional

    try:
        branch = parting(called, example, variant)
    except Exception:  # an error of the scan itself; the disagreement stands without a line
        return None
    if branch is None:
        return None
    place = Place(str(branch.file), branch.line, branch.source)
    if branch.finding is None:
        return Lost(place)
    return Lost(place, branch.finding.consequence.get("trace", ""), branch.finding.instead)
