"""Put PEFT's LoRA layers over two projections of a model, and train those alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peft import LoraConfig
from peft.tuners.lora.layer import Linear
from tiny import llama

import hookpatch

MODEL = llama()
CONFIG = LoraConfig(target_modules=["q_proj", "v_proj"], r=2, init_lora_weights=False)


def lora(layer: Any) -> Any:
    return Linear(layer, "default", config=CONFIG, r=CONFIG.r, lora_alpha=CONFIG.lora_alpha).eval()


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for weight in MODEL.parameters():
        yield hookpatch.replace(hookpatch.Target.attribute(weight, "requires_grad"), False)
    for parent in MODEL.modules():
        for name in CONFIG.target_modules & parent._modules.keys():
            yield hookpatch.derive(hookpatch.Target.item(parent._modules, name), lora)
