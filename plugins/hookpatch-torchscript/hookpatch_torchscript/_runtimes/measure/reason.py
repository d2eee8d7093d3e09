"""Reduce an error to one line: torch's own words, shortened."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Final

import hookpatch_probe

_LONGEST: Final = 240
_OF_ONNXRUNTIME: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from \S+ failed:)?")
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_OF_TRACE: Final = re.compile(
    r"^(?s:output .*) of traced region (cannot be understood by the tracer)"
)  # the message prints tensors
_OURS: Final = (Path(__file__).parents[2], Path(hookpatch_probe.__file__).parent)
_OF_TORCH: Final = re.compile(
    r"[/\\](torch|onnxscript|onnxruntime|onnx|onnx_ir)[/\\]|^<|[/\\]lib[/\\]python[\d.]+[/\\](?!site)"
)


def reason(error: BaseException) -> str:
    """Return the class of the original error, the first line of its message, and the line of the model."""
    first = _first(error)
    lines = [line.strip() for line in _OF_TRACE.sub(r"an output \1", _COLOUR.sub("", str(first))).splitlines()]
    message = _OF_ONNXRUNTIME.sub("", next((line for line in lines if len(line.strip("-=#*: ")) > 1), ""))
    text = f"{type(first).__name__}: {message}" if message else type(first).__name__
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 4].rstrip()} ..."
    place = _place(first) or _place(error)
    return f"{text.rstrip('.:')} ({place})" if place else text.rstrip(".:")


def _first(error: BaseException) -> BaseException:
    """Return the original error behind an error; exporters and compilers wrap errors."""
    visited = {id(error)}
    while True:
        before = getattr(error, "inner_exception", None) or error.__cause__
        if not isinstance(before, BaseException) or id(before) in visited:
            return error
        error = before
        visited.add(id(error))


def _place(error: BaseException) -> str | None:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if any(Path(frame.filename).is_relative_to(folder) for folder in _OURS)]
    own = [frame for frame in frames if frame not in ours and not _OF_TORCH.search(frame.filename)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else None
