"""Let models of transformers through torch.export: onnx-diagnostic's functions in the place of torch's and theirs.

Without its registrations of caches for serialization, which have an undo of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from old_names import patch_torch, patch_transformers

import hookpatch

SLOTS = {
    "torch:vmap": patch_torch.patched_vmap,
    "torch.jit:isinstance": isinstance,
    "torch._dynamo:mark_static_address": lambda *args, **kwargs: None,
    "torch._subclasses.fake_impls:infer_size": patch_torch.patched_infer_size,
    "torch.export._trace:_get_range_constraints": patch_torch.patched__get_range_constraints,
    "torch._refs:_broadcast_shapes": patch_torch.patched__broadcast_shapes,
    "torch._meta_registrations:_broadcast_shapes": patch_torch.patched__broadcast_shapes,
    "torch._prims:_broadcast_in_dim_meta": patch_torch.patched__broadcast_in_dim_meta,
    "torch._prims:broadcast_in_dim": patch_torch.patched__broadcast_in_dim_meta,
    "torch._refs:_maybe_broadcast": patch_torch.patched__maybe_broadcast,
    "torch._export.non_strict_utils:_constrain_user_specified_dimhint_range": (
        patch_torch.patched__constrain_user_specified_dimhint_range
    ),
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._evaluate_expr": patch_torch.patched_ShapeEnv._evaluate_expr,
    "torch.fx.experimental.symbolic_shapes:DynamicDimConstraintPrinter._print_Symbol": (
        patch_torch.patched_DynamicDimConstraintPrinter._print_Symbol
    ),
    "sympy.core.numbers:IntegerConstant.name": lambda self: f"IntCst{self}",
}
AROUND = {
    "torch._export.non_strict_utils:produce_guards_and_solve_constraints": (
        patch_torch._catch_produce_guards_and_solve_constraints
    ),
    "torch._export.utils:_check_input_constraints_for_graph": patch_torch.patched__check_input_constraints_for_graph,
}
WHEREVER_HELD = {
    "transformers.masking_utils:sdpa_mask": patch_transformers.patched_sdpa_mask,
    "transformers.masking_utils:eager_mask": patch_transformers.patched_eager_mask,
    "transformers.integrations.sdpa_attention:sdpa_attention_forward": (
        patch_transformers.patched_sdpa_attention_forward
    ),
    "transformers.models.bart.modeling_bart:eager_attention_forward": (
        patch_transformers.patched_model_bart_eager_attention_forward
    ),
    "transformers.models.marian.modeling_marian:eager_attention_forward": (
        patch_transformers.patched_modeling_marian_eager_attention_forward
    ),
}
AS_THEY_ARE = {"check_signature": False, "why": "they are written for releases of other signatures"}
CLASSES = [value for value in vars(patch_transformers).values() if hasattr(value, "_PATCHED_CLASS_")]


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for target, value in SLOTS.items():
        yield hookpatch.replace(target, value, add=True, **AS_THEY_ARE)
    for target, function in AROUND.items():
        yield hookpatch.derive(target, lambda original, function=function: partial(function, original, verbose=0))
    for target, value in WHEREVER_HELD.items():
        yield hookpatch.replace(target, value, reach="everywhere", except_in="onnx_diagnostic.*", **AS_THEY_ARE)
    for patched in CLASSES:
        target = f"{patched._PATCHED_CLASS_.__module__}:{patched._PATCHED_CLASS_.__qualname__}"
        for name in filter(None, patched._PATCHES_):
            yield hookpatch.replace(f"{target}.{name}", getattr(patched, name), add=True, **AS_THEY_ARE)
