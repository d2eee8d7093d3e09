"""What a patch does to code that torch has captured: a cell for each way and moment, and what speaks against them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, final

if TYPE_CHECKING:
    from hookpatch._patch import Patch
    from hookpatch._session import Session

CellState: TypeAlias = Literal["right", "product", "loud", "broken", "silent"]

# When it is captured and when it is called, in the order in which a cell's moments come.
TIMES: Final = (("before", "inside"), ("inside", "inside"), ("inside", "after"), ("after", "after"))


@final
@dataclass(frozen=True, slots=True)
class EffectCell:
    """What a call gave of a model that was captured in one way at one moment. Frozen.

    Attributes:
        mode: the way, such as ``"export strict"``.
        captured: when it was captured: ``"before"`` the patch, ``"inside"`` or ``"after"``.
        called: when it was called: ``"inside"`` or ``"after"``.
        state: *right*: what eager mode gives at the moment of the call, patched inside and plain after; *product*: an
            artifact that keeps what it captured, such as an exported program, gives what eager mode gave then; *loud*:
            neither, and an error or a warning of hookpatch says so; *broken*: an error that does not name hookpatch;
            *silent*: other numbers, and nothing says so.
        said: the error, the warning, or how the numbers differ; None where it is right or a product.
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
    """A patch has not the effect in captured code that it has in eager mode, and nothing of hookpatch says so.

    Attributes:
        effect: all cells.
    """

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect)
        self.effect: Final = effect

    def __str__(self) -> str:
        bad = [str(cell) for cell in self.effect.cells if cell.state in ("silent", "broken")]
        said = f"{len(bad)} of {len(self.effect.cells)} cells are silent or broken"
        return "\n".join([said, *bad, "", str(self.effect)])


@final
@dataclass(frozen=True, slots=True)
class Effect:
    """What one patch does under each of torch's ways to capture code. Frozen; its text is a table.

    Attributes:
        what: the plugins and patches that were tried.
        cells: by mode, and for each by the moments of capture and call.
        left_out: why there is no cell of a mode, by the mode: torch cannot capture it unpatched either, or something is
            not installed.
    """

    what: tuple[str, ...]
    cells: tuple[EffectCell, ...]
    left_out: Mapping[str, str]

    def check(self) -> Effect:
        """Return it if no cell is silent or broken.

        Raises:
            EffectFailed: some are; its text has the table.
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
        return "\n".join(
            [
                f"{', '.join(self.what)}: {', '.join(f'{count} {state}' for state, count in counts.items())}",
                *_lines(rows),
                *(f"not tried: {mode}: {why}" for mode, why in self.left_out.items()),
            ]
        )


class EffectOf(Protocol):
    """What the fixture ``effect`` gives: ``hookpatch.testing.effect``."""

    def __call__(
        self,
        model: Any,
        /,
        *inputs: Any,
        what: str | Patch | Session | Iterable[str | Patch],
        modes: Iterable[str] | None = None,
    ) -> Effect:
        """Return what a patch does under each mode."""
        ...


def _lines(rows: list[list[str]]) -> Iterator[str]:
    """Yield the lines of a table whose columns are as wide as they have to be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
