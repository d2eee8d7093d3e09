"""Record the path of a run through the lines of a model, and find where two runs part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from hookpatch_export._findings.finding import Finding, Kind

Step: TypeAlias = tuple[str, CodeType, int]  # with the file: code of another one may be equal
_MOST: Final = 2_000_000  # steps; of a longer run only so many are compared


@final
@dataclass(frozen=True)
class Spot:
    """A place in a file.

    Attributes:
        file: the file, absolute.
        line: the line, from 1.
        column: the column, from 1; 0 if not known.
    """

    file: Path
    line: int
    column: int = 0


def record_steps(run: Callable[[], object], files: Iterable[Path]) -> list[Step]:
    """Return the instructions that a run executes in code of some files, in order. The run may raise."""
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
    except Exception:  # the path up to the error is what counts
        pass
    finally:
        sys.settrace(before)
    return taken


def last_common_spot(one: Sequence[Step], two: Sequence[Step]) -> Spot | None:
    """Return the last place that both runs reached together; None if they took the same path."""
    at = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    if at == 0 or (at == len(one) and at == len(two)):
        return None
    return _spot(one[at - 1])


def explain(
    one: Sequence[Step], two: Sequence[Step], findings: Sequence[Finding]
) -> tuple[Finding | None, Spot | None]:
    """Return the finding that explains why two runs differ, and the place where they part; None if not known."""
    spot = last_common_spot(one, two)
    return (finding_at(spot, findings) if spot is not None else only_one(lines_passed(two), findings)), spot


def lines_passed(run: Iterable[Step]) -> set[tuple[Path, int]]:
    """Return the lines that a run passed."""
    return {(spot.file, spot.line) for spot in map(_spot, dict.fromkeys(run))}


def finding_at(spot: Spot, findings: Iterable[Finding]) -> Finding | None:
    """Return the finding at a place: of several on the line, first the nearest by column, then the worst."""
    here = [one for one in findings if one.file == spot.file and one.line <= spot.line <= max(one.end_line, one.line)]
    return min(here, key=lambda one: (_beside(spot, one), one.end_line - one.line, -one.kind), default=None)


def only_one(lines: set[tuple[Path, int]], findings: Iterable[Finding]) -> Finding | None:
    """Return the finding of kind data or shape on some lines, if only one of the lines has any."""
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
