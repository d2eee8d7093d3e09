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
    steps: list[Step] = []

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        if _resolved(frame.f_code.co_filename) not in wanted:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return executed

    def executed(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and len(steps) < _MOST:
            steps.append((frame.f_code.co_filename, frame.f_code, frame.f_lasti))
        return executed

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        run()
    except Exception:  # the path up to the error is what counts
        pass
    finally:
        sys.settrace(before)
    return steps


def last_common_spot(first: Sequence[Step], second: Sequence[Step]) -> Spot | None:
    """Return the last place that both runs reached together; None if they took the same path."""
    index = next(
        (index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    if index == 0 or (index == len(first) and index == len(second)):
        return None
    return _spot(first[index - 1])


def explain(
    first: Sequence[Step], second: Sequence[Step], findings: Sequence[Finding]
) -> tuple[Finding | None, Spot | None]:
    """Return the finding that explains why two runs differ, and the place where they part; None if not known."""
    spot = last_common_spot(first, second)
    return (finding_at(spot, findings) if spot is not None else only_kind_on(lines_passed(second), findings)), spot


def lines_passed(run: Iterable[Step]) -> set[tuple[Path, int]]:
    """Return the lines that a run passed."""
    return {(spot.file, spot.line) for spot in map(_spot, dict.fromkeys(run))}


def finding_at(spot: Spot, findings: Iterable[Finding]) -> Finding | None:
    """Return the finding at a place: of several on the line, first the nearest by column, then the worst."""
    candidates = [
        finding
        for finding in findings
        if finding.file == spot.file and finding.line <= spot.line <= max(finding.end_line, finding.line)
    ]
    return min(
        candidates,
        key=lambda finding: (_beside(spot, finding), finding.end_line - finding.line, -finding.kind),
        default=None,
    )


def only_kind_on(lines: set[tuple[Path, int]], findings: Iterable[Finding]) -> Finding | None:
    """Return the finding of kind data or shape on some lines, if only one of the lines has any."""
    candidates = [
        finding
        for finding in findings
        if finding.kind in (Kind.DATA, Kind.SHAPE) and (finding.file, finding.line) in lines
    ]
    return candidates[0] if candidates and len({(finding.file, finding.line) for finding in candidates}) == 1 else None


def _beside(spot: Spot, finding: Finding) -> int:
    if not spot.column or spot.line != finding.line:
        return 0
    end = finding.end_column if finding.end_line == finding.line else spot.column + 1
    return max(finding.column - spot.column, spot.column - end, 0)


def _spot(step: Step) -> Spot:
    file, code, offset = step
    line, _, column, _ = _positions(code)[offset // 2]
    return Spot(_resolved(file), line or code.co_firstlineno, (column or 0) + 1)


@lru_cache(maxsize=4_096)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return [*code.co_positions()]


@lru_cache(maxsize=4_096)
def _resolved(file: str) -> Path:
    return Path(file).resolve()
