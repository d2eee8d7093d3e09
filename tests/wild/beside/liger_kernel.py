"""Liger: faster kernels for an existing model and for later models. The kernels are plain torch here."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from plain_kernels import RAN, monkey_patch
from ports.liger_kernel import MODEL
from tiny import IDS, llama, parts

DISTRIBUTION, OWN = "liger-kernel", ("liger_kernel", "plain_kernels")
_NAMES = ("apply_liger_kernel_to_llama", "_patch_rms_norm_module", "_patch_swiglu_module", "_bind_method_to_module")
SOURCES = tuple(f"liger_kernel.transformers.monkey_patch:{name}" for name in _NAMES)
PLAIN = llama()(IDS).logits

shop = types.ModuleType("shop")
exec("from transformers.models.llama.modeling_llama import LlamaRMSNorm\nNORMS = [LlamaRMSNorm]", vars(shop))
sys.modules["shop"] = shop


def owners() -> dict[str, object]:
    return parts(MODEL)


def apply() -> None:
    monkey_patch.apply_liger_kernel_to_llama(fused_linear_cross_entropy=False, model=MODEL)


def undo() -> None:
    """Do nothing: Liger has no undo."""


def kernels(make: Callable[[], Any]) -> set[str]:
    """Return the names of the kernels run by a model."""
    model = make()
    RAN.clear()
    assert torch.allclose(model(IDS).logits, PLAIN, atol=1e-6)
    return set(RAN)


def observe() -> dict[str, bool]:
    before, inside = kernels(lambda: MODEL), kernels(llama)
    return {
        "norms of the model": "norm" in before,
        "MLPs of the model": "mlp" in before,
        "rotary embedding": "rope" in before,
        "norms of a model made inside": "norm" in inside,
        "MLPs of a model made inside": "mlp" in inside,
        "what the model prints": "LigerRMSNorm" in str(MODEL) and "LigerSwiGLUMLP" in str(MODEL),
        "a name bound before": shop.LlamaRMSNorm is monkey_patch.LigerRMSNorm,
        "a list": shop.NORMS[0] is monkey_patch.LigerRMSNorm,
    }
