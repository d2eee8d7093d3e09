"""The result of ``effect()``: a cell for each capture mode and each order of patch, capture and call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, final

if TYPE_CHECKING:
    from hookpatch._engine.patch.patch import Patch
    from hookpatch._session.session import Session

CellState: TypeAlias = Literal["right", "product", "loud", "broken", "silent"]

# The times of capture and of call, relative to the patch.
TIMES: Final = (("before", "inside"), ("inside", "inside"), ("inside", "after"), ("after", "after"))


@final
@dataclass(frozen=True, slots=True)
class EffectCell:
    """The result of one call of a captured model. Frozen.

    Attributes:
        mode: the capture mode, such as ``"export strict"``.
        captured: the time of capture: ``"before"``, ``"inside"`` or ``"after"`` the patch.
        called: the time of the call: ``"inside"`` or ``"after"``.
        state: *right*: the numbers of eager mode at the time of the call, patched inside and plain after; *product*: a
            captured model that never changes, such as an exported program, returns the numbers of eager mode at the
            time of capture; *loud*: other numbers, with an error or a warning of hookpatch; *broken*: an error that
            does not name hookpatch; *silent*: other numbers without a message.
        said: the error, the warning or the numbers; None if *right* or *product*.
    """

    mode: str
    captured: str
    called: str
    state: CellState
    said: str | None = None

    def __str__(self) -> str:
        text = f"{self.state}: {self.mode}, captured {self.captured} and called {self.called}"
        return f"{text}: {self.said}" if self.said else text


class EffectFailed(AssertionError):
    """In captured code a patch does not have the effect of eager mode, and hookpatch reports no reason.

    Attributes:
        effect: all cells.
    """

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect)
        self.effect: Final = effect

    def __str__(self) -> str:
        bad = [str(cell) for cell in self.effect.cells if cell.state in ("silent", "broken")]
        count = f"{len(bad)} of {len(self.effect.cells)} cells are silent or broken"
        return "\n".join([count, *bad, "", str(self.effect)])


@final
@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a patch in each capture mode of torch. Frozen; ``str()`` gives a table.

    Attributes:
        what: the plugins and patches.
        cells: the cells, by mode, then by the times of capture and call.
        left_out: the modes without cells, each with the reason: torch cannot capture the unpatched model, or a module
            is not installed.
    """

    what: tuple[str, ...]
    cells: tuple[EffectCell, ...]
    left_out: Mapping[str, str]

    def check(self) -> Effect:
        """Return the effect if no cell is silent or broken.

        Raises:
            EffectFailed: a cell is silent or broken; the text contains the table.
        """
        __tracebackhide__ = True  # a failing test shows its own lines, not these
        if any(cell.state in ("silent", "broken") for cell in self.cells):
            raise EffectFailed(self)
        return self

    def __str__(self) -> str:
        rows = [["captured, called", *(f"{captured}, {called}" for captured, called in TIMES)]]
        by_mode: dict[str, dict[tuple[str, str], str]] = {}
        for cell in self.cells:
            by_mode.setdefault(cell.mode, {})[cell.captured, cell.called] = cell.state
        rows += [[mode, *(states.get(time, "") for time in TIMES)] for mode, states in by_mode.items()]
        counts = Counter(cell.state for cell in self.cells)
        head = f"{', '.join(self.what)}: {', '.join(f'{count} {state}' for state, count in counts.items())}"
        not_tried = [f"not tried: {mode}: {reason}" for mode, reason in self.left_out.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([head, *table, *not_tried])


class EffectOf(Protocol):
    """The type of the fixture ``effect``, which is ``hookpatch.testing.effect``."""

    def __call__(
        self,
        model: Any,
        /,
        *inputs: Any,
        what: str | Patch | Session | Iterable[str | Patch],
        modes: Iterable[str] | None = None,
    ) -> Effect:
        """Return the effect of a patch in each capture mode."""
        ...
