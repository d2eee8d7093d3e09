"""``python -m hookpatch_onnxsim``: the optimizer passes that the installed onnxsim has, one a line."""

from __future__ import annotations

from onnxsim import onnx_simplifier  # type: ignore[import-untyped]  # it ships no types

from hookpatch_onnxsim._release import passes_of

print(*sorted(passes_of(onnx_simplifier)), sep="\n")
