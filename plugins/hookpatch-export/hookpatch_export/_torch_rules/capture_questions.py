"""Torch's functions that ask for the mode of capture, and the modes in which their answer is True."""

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
    """Return the modes in which torch's function of a name returns True; None if it is no question about the mode."""
    return _YES_IN.get(name)
