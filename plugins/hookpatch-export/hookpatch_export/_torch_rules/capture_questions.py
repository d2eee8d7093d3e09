"""Torch's functions that ask for the mode of capture, and the modes with the answer True."""

from __future__ import annotations

from typing import Final

_YES_IN: Final = {
    "is_tracing": frozenset(["trace", "onnx"]),
    "is_scripting": frozenset(["script"]),
    "is_compiling": frozenset(["export", "onnx"]),
    "is_dynamo_compiling": frozenset(["export", "onnx"]),
    "is_exporting": frozenset(["export", "onnx"]),
    "is_in_onnx_export": frozenset(["onnx"]),
    "_is_tracing": frozenset(["trace", "onnx"]),
    "_get_tracing_state": frozenset(["trace", "onnx"]),
}


def modes_answering_yes(name: str) -> frozenset[str] | None:
    """Return the modes with the answer True of a function of torch; None if the function does not ask for the mode."""
    return _YES_IN.get(name)
