"""Language models of transformers, tiny, from configs with random weights."""

from __future__ import annotations

from typing import Any, Final

import torch
import transformers

_SIZES: Final[dict[str, Any]] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tiny(name: str) -> torch.nn.Module:
    """Return GPT-Neo, Gemma, Llama or (the encoder of) T5 with two layers and weights from a fixed seed."""
    torch.manual_seed(0)
    model = _made(name).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms, too: their initial values are constant
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model


def _made(name: str) -> Any:
    if name == "GPT-Neo":
        sizes = {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "use_cache": False}
        attention = [[["global", "local"], 1]]
        config: Any = transformers.GPTNeoConfig(**sizes, attention_types=attention, bos_token_id=1, eos_token_id=2)
        return transformers.GPTNeoForCausalLM(config)
    if name == "Gemma":
        config = transformers.GemmaConfig(**_SIZES, num_key_value_heads=1, head_dim=16)
        return transformers.GemmaForCausalLM(config)
    if name == "Llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_SIZES))
    sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2}
    # With fused attention torch 2.13 cannot export T5.
    config = transformers.T5Config(**sizes, feed_forward_proj="gated-gelu", attn_implementation="eager")
    return transformers.T5EncoderModel(config)


class Logits(torch.nn.Module):
    """A model from token ids to the first output alone."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(ids)[0]
        return output


class Masked(torch.nn.Module):
    """A model from token ids and a mask to the first output alone."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.model(ids, attention_mask=mask)[0]
        return output
