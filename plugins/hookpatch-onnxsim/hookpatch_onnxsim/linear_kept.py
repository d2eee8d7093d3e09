"""Keep each Linear as exported, a MatMul (and Add) or Gemm: onnxsim fuses none."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch
from hookpatch_onnxsim._passes import skip_passes


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Skip the release's passes that touch a Linear."""
    yield skip_passes(
        [
            "fuse_qkv",  # three MatMul on a value become a MatMul and a Split
            "fuse_attention",  # 0.8.1, without fuse_qkv before: q, k, v become a com.microsoft Attention
            "fuse_matmul_add_bias_into_gemm",  # 2-D: MatMul and any Add, even a residual, become a Gemm
            "fuse_matmul_add_bias_into_gemm_batched",  # from 0.7.1 on, 3-D and more: Reshape, Gemm, Reshape
        ],
        why="fused Linears have other quantizers, names and shapes than those of the model",
        # The passes that touch a Linear, measured on these releases; a later release may have more.
        requires="onnxsim>=0.4.36,<0.9",
    )
