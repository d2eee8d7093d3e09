"""The way that a run takes through the lines of the model, and where two runs part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from hookpatch_export._finding import Finding, Kind

Step: TypeAlias = tuple[str, CodeType, int]  # with the file: code of another one may be equal
_MOST: Final = 2_000_000  # steps; a longer run is compared as far as that


@final
@dataclass(frozen=True)
class Spot:
    """A place in a file.

    Attributes:
        file: the file, absolute.
        line: the line, from 1.
        column: the column, from 1; 0 if it is not known.
    """

    file: Path
    line: int
    column: int = 0


def steps(run: Callable[[], object], files: Iterable[Path]) -> list[Step]:
    """Return the instructions that a run executes in code of these files, in order. A run may raise."""
    wanted = frozenset(files)
    taken: list[Step] = []

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        if _resolved(frame.f_code.co_filename) not in wanted:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return executed

    def executed(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and len(taken) < _MOST:
            taken.append((frame.f_code.co_filename, frame.f_code, frame.f_lasti))
        return executed

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        run()
    except Exception:  # it is the way to there that counts
        pass
    finally:
        sys.settrace(before)
    return taken


def parting(one: Sequence[Step], two: Sequence[Step]) -> Spot | None:
    """Return the last place that both runs came to together; None if they took one way."""
    at = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    if at == 0 or (at == len(one) and at == len(two)):
        return None
    return _spot(one[at - 1])


def explained(
    one: Sequence[Step], two: Sequence[Step], findings: Sequence[Finding]
) -> tuple[Finding | None, Spot | None]:
    """Return the finding that explains why two runs answer differently, and where they part; None if not known."""
    spot = parting(one, two)
    return (finding_at(spot, findings) if spot is not None else only_one(passed(two), findings)), spot


def passed(run: Iterable[Step]) -> set[tuple[Path, int]]:
    """Return the lines that a run came by."""
    return {(spot.file, spot.line) for spot in map(_spot, dict.fromkeys(run))}


def finding_at(spot: Spot, findings: Iterable[Finding]) -> Finding | None:
    """Return the finding at a place: of several on its line the one whose columns are nearest, then the worst."""
    here = [one for one in findings if one.file == spot.file and one.line <= spot.line <= max(one.end_line, one.line)]
    return min(here, key=lambda one: (_beside(spot, one), one.end_line - one.line, -one.kind), default=None)


def only_one(lines: set[tuple[Path, int]], findings: Iterable[Finding]) -> Finding | None:
    """Return the finding of a tensor's value or shape on these lines if there is one line with such, and no more."""
    there = [one for one in findings if one.kind in (Kind.DATA, Kind.SHAPE) and (one.file, one.line) in lines]
    return there[0] if there and len({(one.file, one.line) for one in there}) == 1 else None


def _beside(spot: Spot, finding: Finding) -> int:
    if not spot.column or spot.line != finding.line:
        return 0
    end = finding.end_column if finding.end_line == finding.line else spot.column + 1
    return max(finding.column - spot.column, spot.column - end, 0)


def _spot(step: Step) -> Spot:
    file, code, at = step
    line, _, column, _ = _positions(code)[at // 2]
    return Spot(_resolved(file), line or code.co_firstlineno, (column or 0) + 1)


@lru_cache(maxsize=4_096)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return [*code.co_positions()]


@lru_cache(maxsize=4_096)
def _resolved(file: str) -> Path:
    return Path(file).resolve()
