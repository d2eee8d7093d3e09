"""Ready factories for ``hookpatch runtimes``: known shapes with random weights, nothing is downloaded.

Each takes a batch size and returns ``(model, inputs)`` or ``(model, inputs, keywords)``. The text models need
transformers, and get 128 tokens; the image model gets 224 by 224 pixels.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from hookpatch_torchscript._models.resnet import ResNet18

Example = tuple[nn.Module, tuple[Tensor, ...]]
KeywordExample = tuple[nn.Module, tuple[Tensor, ...], dict[str, Tensor]]

_TOKENS: Final = 128
_PIXELS: Final = 224
_SMALL: Final[dict[str, Any]] = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 100}


def bert_base(batch: int) -> KeywordExample:
    """Return BERT base (Devlin and others 2018): 12 layers, 768 wide, 109,482,240 parameters; masked tokens."""
    return _bert(batch, _TOKENS)


def bert_small(batch: int) -> KeywordExample:
    """Return BERT with 2 layers, 32 wide, for trying things out: 8 tokens."""
    return _bert(batch, 8, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, **_SMALL)


def gpt_neo_125m(batch: int) -> KeywordExample:
    """Return GPT-Neo 125M (Black and others 2021): 12 layers, 768 wide, 125,198,592 parameters; a whole prompt."""
    return _gpt_neo(batch, _TOKENS, hidden_size=768, num_layers=12, num_heads=12, attention_types=[[[*_ATTENTION], 6]])


def gpt_neo_small(batch: int) -> KeywordExample:
    """Return GPT-Neo with 2 layers, 32 wide, for trying things out: 8 tokens."""
    small = {"num_layers": 2, "num_heads": 2, "attention_types": [[[*_ATTENTION], 1]], "max_position_embeddings": 16}
    return _gpt_neo(batch, 8, window_size=4, **small, **_SMALL)


def resnet18(batch: int) -> Example:
    """Return ResNet-18 (He and others 2015), 11,689,512 parameters, in plain torch."""
    return ResNet18(), (torch.randn(batch, 3, _PIXELS, _PIXELS),)


def resnet_small(batch: int) -> Example:
    """Return ResNet-18 with an eighth of its channels, for trying things out: 32 by 32 pixels."""
    return ResNet18(width=8, classes=10), (torch.randn(batch, 3, 32, 32),)


_ATTENTION: Final = ("global", "local")


def _bert(batch: int, tokens: int, **config: Any) -> KeywordExample:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**config))
    return model, (), _text(batch, tokens, model.config.vocab_size)


def _gpt_neo(batch: int, tokens: int, **config: Any) -> KeywordExample:
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    # Without a cache: its logits are what all modes can return.
    model = GPTNeoForCausalLM(GPTNeoConfig(use_cache=False, **config))
    return model, (), _text(batch, tokens, model.config.vocab_size)


def _text(batch: int, tokens: int, vocabulary: int) -> dict[str, Tensor]:
    ids = torch.randint(vocabulary, (batch, tokens))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
