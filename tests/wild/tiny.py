"""A model of three kilobytes for the ports to patch."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

IDS = torch.tensor([[1, 2, 3]])


def llama() -> LlamaForCausalLM:
    """Make the same small Llama in each call."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=16, **sizes)).eval()


def parts(model: torch.nn.Module) -> dict[str, object]:
    """Return the modules of a model and the dicts that hold submodules and parameters, by name."""
    owners: dict[str, object] = {}
    for name, module in model.named_modules():
        owners[f"model.{name}"] = module
        owners[f"model.{name}._modules"] = module._modules
        owners[f"model.{name}._parameters"] = module._parameters
    return owners
