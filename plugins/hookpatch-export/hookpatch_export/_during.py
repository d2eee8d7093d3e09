"""In which modes of capture torch's questions about them are answered with yes."""

from __future__ import annotations

from typing import Final

_DURING: Final = {
    "is_tracing": frozenset(["trace", "onnx"]),
    "is_scripting": frozenset(["script"]),
    "is_compiling": frozenset(["export", "onnx"]),
    "is_dynamo_compiling": frozenset(["export", "onnx"]),
    "is_exporting": frozenset(["export", "onnx"]),
    "is_in_onnx_export": frozenset(["onnx"]),
    "_is_tracing": frozenset(["trace", "onnx"]),
    "_get_tracing_state": frozenset(["trace", "onnx"]),
}


def during(name: str) -> frozenset[str] | None:
    """Return in which modes torch's function of that name answers yes, or None if it asks no such thing."""
    return _DURING.get(name)
