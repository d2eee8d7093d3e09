"""Keep the q, k and v projections apart: onnxsim runs without its fuse_qkv pass."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch
from hookpatch_onnxsim._passes import skip_passes


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Skip fuse_qkv at every call of onnxsim.simplify, and the passes that join the three instead."""
    yield skip_passes(
        ["fuse_qkv", "fuse_attention"],  # the second, of 0.8.1, finds its pattern only without the first
        why="fuse_qkv turns the three projections of an attention into one MatMul and Split",
    )
