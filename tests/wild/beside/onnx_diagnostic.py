"""onnx-diagnostic: torch and transformers, changed for as long as a model is exported."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import sympy
import torch
from old_names import torch_export_patches
from torch.fx.experimental import symbolic_shapes
from transformers import masking_utils, modeling_utils
from transformers.integrations import sdpa_attention
from transformers.models.bart import modeling_bart
from transformers.models.llama import modeling_llama
from transformers.models.sam import modeling_sam

DISTRIBUTION, OWN = "onnx-diagnostic", ("onnx_diagnostic",)
_HERE = "onnx_diagnostic.torch_export_patches.onnx_export_errors"
_NAMES = ("get_function", "get_patches", "patch_module_or_classes", "unpatch_module_or_classes", "_patch_sympy")
_MORE = ("_unpatch_sympy", "_patch_torch", "_unpatch_torch", "_patch_transformers", "_unpatch_transformers")
SOURCES = tuple(f"{_HERE}:{name}" for name in (*_NAMES, *_MORE, "torch_export_patches"))

shop = types.ModuleType("shop")
exec("from transformers.integrations.sdpa_attention import sdpa_attention_forward", vars(shop))
sys.modules["shop"] = shop
block = torch_export_patches(patch_transformers=True)


def owners() -> dict[str, object]:
    masks, attentions = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS, modeling_utils.AttentionInterface
    return {
        "masks": masks._global_mapping,
        "masks of its own": masks._local_mapping,
        "attentions": attentions._global_mapping,
    }


def apply() -> None:
    block.__enter__()


def undo() -> None:
    block.__exit__(None, None, None)


def runs_its(function: Callable[..., Any]) -> bool:
    """Tell whether a call of a function runs code of onnx-diagnostic, whatever comes of the call."""
    parameters = inspect.signature(function).parameters.values()
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind < parameter.VAR_POSITIONAL
    ]
    flags: list[bool] = []
    sys.setprofile(lambda frame, event, argument: flags.append("/onnx_diagnostic/" in frame.f_code.co_filename))
    with suppress(Exception):
        function(*[None] * len(needed))
    sys.setprofile(None)
    return any(flags)


def observe() -> dict[str, bool]:
    return {
        "torch": runs_its(torch.vmap) and runs_its(torch._subclasses.fake_impls.infer_size),
        "ShapeEnv": runs_its(symbolic_shapes.ShapeEnv._evaluate_expr),
        "sympy": hasattr(sympy.core.numbers.IntegerConstant, "name"),
        "masks": runs_its(masking_utils.sdpa_mask) and runs_its(masking_utils.eager_mask),
        "the registry of masks": runs_its(masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"]),
        "the registry of attentions": runs_its(modeling_utils.AttentionInterface()["sdpa"]),
        "attention": runs_its(sdpa_attention.sdpa_attention_forward)
        and runs_its(modeling_bart.eager_attention_forward),
        "methods": runs_its(modeling_llama.LlamaRotaryEmbedding.forward)
        and runs_its(modeling_sam.SamMaskDecoder.forward),
        "a name bound before": runs_its(shop.sdpa_attention_forward),
    }
