"""PEFT: LoRA layers in the place of linear layers, and back."""

from __future__ import annotations

import copy

import torch
from peft import PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from ports.peft import CONFIG, MODEL
from tiny import IDS, llama, parts

DISTRIBUTION, OWN = "peft", ("peft", "tqdm")
_TUNER = "peft.tuners.tuners_utils:BaseTuner"
SOURCES = (  # without the functions that read the configuration and find the layers
    *(f"peft.tuners.lora.model:LoraModel.{name}" for name in ("_create_and_replace", "_replace_module")),
    *(f"{_TUNER}.{name}" for name in ("_unload_and_optionally_merge", "_mark_only_adapters_as_trainable")),
)
BODIES = {"lora"}
PLAIN = llama()(IDS).logits
wrapped: list[PeftModel] = []


def owners() -> dict[str, object]:
    return parts(MODEL)


def state() -> dict[str, object]:
    return {f"{name}.requires_grad": weight.requires_grad for name, weight in MODEL.named_parameters()}


def apply() -> None:
    wrapped.append(get_peft_model(MODEL, copy.deepcopy(CONFIG)).eval())


def undo() -> None:
    wrapped.pop().unload()


def observe() -> dict[str, bool]:
    layers = [name for name, layer in MODEL.named_modules() if isinstance(layer, LoraLayer)]
    trained = {name for name, weight in MODEL.named_parameters() if weight.requires_grad}
    return {
        "the model": not torch.equal(MODEL(IDS).logits, PLAIN),
        "both projections": [name.rpartition(".")[2] for name in layers] == ["q_proj", "v_proj"],
        "the adapters alone are trained": bool(trained) and all("lora" in name for name in trained),
        "a copy made inside": not torch.equal(copy.deepcopy(MODEL)(IDS).logits, PLAIN),
    }
