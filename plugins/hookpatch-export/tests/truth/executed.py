"""Record the executed parts of the source, instruction by instruction."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from truth.frames import is_user_code

Span = tuple[int, int, int, int]  # line, end line, column, end column; columns from 0, as co_positions has them


@dataclass
class Executed:
    """The executed instructions of user code."""

    offsets: dict[CodeType, set[int]] = field(default_factory=dict)

    def lines(self) -> dict[str, set[int]]:
        """Return the executed lines, by file."""
        by_file: dict[str, set[int]] = {}
        for code, offsets in self.offsets.items():
            by_file.setdefault(code.co_filename, set()).update(
                span[0] for offset, span in _spans(code) if offset in offsets and offset
            )
        return by_file

    def never(self) -> dict[str, set[Span]]:
        """Return the skipped parts of lines that ran: the right side of ``a and b``, an unused branch."""
        by_file: dict[str, set[Span]] = {}
        ran = self.lines()
        for code, offsets in self.offsets.items():
            spans = _spans(code)
            did = {span for offset, span in spans if offset in offsets}
            skipped = {span for _, span in spans if span not in did and span[0] in ran[code.co_filename]}
            by_file.setdefault(code.co_filename, set()).update(skipped)
        return by_file


def _spans(code: CodeType) -> list[tuple[int, Span]]:
    return [
        (2 * i, (line, end, column, end_column))
        for i, (line, end, column, end_column) in enumerate(code.co_positions())
        if None not in (line, end, column, end_column)
    ]  # type: ignore[misc]


@contextmanager
def executed() -> Iterator[Executed]:
    """Record the instructions of user code during the block."""
    record = Executed()
    offsets = record.offsets

    def calls(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not is_user_code(code.co_filename):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        add = offsets.setdefault(code, set()).add

        def instruction(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                add(frame.f_lasti)
            return instruction

        return instruction

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        yield record
    finally:
        sys.settrace(before)
