"""Keep each Linear the MatMul (and Add) or Gemm that it was exported as: onnxsim fuses none of them."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch
from hookpatch_onnxsim._passes import skip_passes


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Skip the passes that touch a Linear, whichever of them the release has."""
    yield skip_passes(
        [
            "fuse_qkv",  # three MatMul on one value: one, and a Split
            "fuse_attention",  # 0.8.1, where fuse_qkv has not come first: q, k, v in one com.microsoft Attention
            "fuse_matmul_add_bias_into_gemm",  # 2-D: MatMul and any Add, be it a residual, in one Gemm
            "fuse_matmul_add_bias_into_gemm_batched",  # from 0.7.1 on, 3-D and more: Reshape, Gemm, Reshape
        ],
        why="fused Linears have other quantizers, names and shapes than those of the model",
        # Which passes touch a Linear was measured on these; a later release may have one more.
        requires="onnxsim>=0.4.36,<0.9",
    )
