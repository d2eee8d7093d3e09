"""Find the optimizer passes of the installed onnxsim."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from types import ModuleType
from typing import Final

# Published releases do not change: passes are noted here for releases without a list.
_BEFORE_REWRITE_WHERE: Final = frozenset(
    {
        "eliminate_common_subexpression",
        "eliminate_consecutive_idempotent_ops",
        "eliminate_deadend",
        "eliminate_duplicate_initializer",
        "eliminate_identity",
        "eliminate_if_with_const_cond",
        "eliminate_nop_cast",
        "eliminate_nop_concat",
        "eliminate_nop_dropout",
        "eliminate_nop_expand",
        "eliminate_nop_flatten",
        "eliminate_nop_monotone_argmax",
        "eliminate_nop_pad",
        "eliminate_nop_reshape",
        "eliminate_nop_split",
        "eliminate_nop_transpose",
        "eliminate_nop_with_unit",
        "eliminate_shape_gather",
        "eliminate_shape_op",
        "eliminate_slice_after_shape",
        "eliminate_unused_initializer",
        "extract_constant_to_initializer",
        "fuse_add_bias_into_conv",
        "fuse_bn_into_conv",
        "fuse_concat_into_reshape",
        "fuse_consecutive_concats",
        "fuse_consecutive_log_softmax",
        "fuse_consecutive_reduce_unsqueeze",
        "fuse_consecutive_slices",
        "fuse_consecutive_squeezes",
        "fuse_consecutive_transposes",
        "fuse_consecutive_unsqueezes",
        "fuse_matmul_add_bias_into_gemm",
        "fuse_pad_into_conv",
        "fuse_pad_into_pool",
        "fuse_qkv",
        "fuse_transpose_into_gemm",
        "nop",
    }
)
_WITHOUT_A_LIST: Final[Mapping[str, frozenset[str]]] = {
    "0.4.36": _BEFORE_REWRITE_WHERE,
    "0.5.0": _BEFORE_REWRITE_WHERE,
    "0.6.1": _BEFORE_REWRITE_WHERE | {"rewrite_where"},
    "0.6.2": _BEFORE_REWRITE_WHERE | {"rewrite_where"},
}
_LISTED_LATE: Final = frozenset({"eliminate_reshape_around_elementwise", "fuse_consecutive_mul", "fuse_mul_into_conv"})
_NEVER_LISTED: Final = "fuse_matmul_add_bias_into_gemm_batched"
_UNLISTED: Final[Mapping[str, frozenset[str]]] = {
    "0.7.1": _LISTED_LATE | {_NEVER_LISTED},
    "0.7.2": _LISTED_LATE | {_NEVER_LISTED, "fuse_preceding_mul_into_conv"},
    "0.7.3": _LISTED_LATE | {_NEVER_LISTED, "fuse_preceding_mul_into_conv"},
}


def passes_of(simplifier: ModuleType) -> frozenset[str]:
    """Return the names of the optimizer passes that the installed onnxsim has.

    The lists of its C extension have most names; ``onnxsim --list-default-optimizers`` and
    ``--list-other-optimizers`` print these lists. This file adds the passes that a release runs but does not list.

    Args:
        simplifier: the module ``onnxsim.onnx_simplifier``.
    """
    release, extension = metadata.version("onnxsim"), simplifier.C
    if release in _WITHOUT_A_LIST:
        return _WITHOUT_A_LIST[release]
    # The default list first: its call registers passes for the other list (in 0.8.1, 25 of 65).
    optional = extension._list_other_optimizers() if hasattr(extension, "_list_other_optimizers") else ()
    return frozenset({*optional, *extension._list_optimizers(), *_UNLISTED.get(release, ())})
