"""Find the branches that a trace has lost, with the scan of hookpatch-export if installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, final

from hookpatch_torchscript._values.place import Place
from hookpatch_torchscript._values.verdict import Lost

if TYPE_CHECKING:
    from hookpatch_export._probe.divergence import Parting

SCANNED: Final = find_spec("hookpatch_export") is not None


@final
class LostBranches:
    """The lines where runs with other inputs leave the path of the run with the example, which is run once.

    Args:
        called: the traced model or function.
        example: runs it with the example.
    """

    def __init__(self, called: Callable[..., Any], example: Callable[[], object]) -> None:
        self._called: Final = called
        self._example: Final = example

    def of(self, variant: Callable[[], object]) -> Lost | None:
        """Return the line of a run with another input; None if no line is known."""
        if not SCANNED:
            return None
        try:
            branch = self._parting(variant)
        except Exception:  # an error of the scan itself; the disagreement is reported without a line
            return None
        if branch is None:
            return None
        place = Place(str(branch.file), branch.line, branch.source)
        if branch.finding is None:
            return Lost(place)
        return Lost(place, branch.finding.consequence.get("trace", ""), branch.finding.instead)

    @cached_property
    def _parting(self) -> Callable[[Callable[[], object]], Parting | None]:
        from hookpatch_export import partings  # optional

        return partings(self._called, self._example)
