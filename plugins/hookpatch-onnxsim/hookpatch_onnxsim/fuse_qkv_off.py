"""Keep the q, k and v projections apart: onnxsim runs without its fuse_qkv pass."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch
from hookpatch_onnxsim._passes import skip_passes


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Skip fuse_qkv at every call of onnxsim.simplify."""
    yield skip_passes(
        ["fuse_qkv"], why="fuse_qkv turns the three projections of an attention into one MatMul and Split"
    )
