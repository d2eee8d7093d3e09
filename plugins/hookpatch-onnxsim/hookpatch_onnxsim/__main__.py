"""``python -m hookpatch_onnxsim``: print the optimizer passes of the installed onnxsim, one a line."""

from __future__ import annotations

from onnxsim import onnx_simplifier  # type: ignore[import-untyped]  # onnxsim ships no types

from hookpatch_onnxsim._release import passes_of

print(*sorted(passes_of(onnx_simplifier)), sep="\n")
