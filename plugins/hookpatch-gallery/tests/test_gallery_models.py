"""The plugins of the room models, each with torch and transformers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hookpatch.testing import Patched

pytestmark = pytest.mark.model


@pytest.fixture(scope="module", autouse=True)
def llama() -> Any:
    """A Llama of two layers, with two heads for each key; its import adds a finder to ``sys.meta_path``."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)).eval()


def test_plain_attention(llama: Any, patched: Patched) -> None:
    """The fused operator is called no more, and the result is the same: without a mask, and with padding."""
    import torch

    calls: list[str] = []

    class Calls(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    ids = torch.arange(12).reshape(2, 6)
    masks = [torch.ones_like(ids), torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6])]

    def logits() -> list[Any]:
        calls.clear()
        with torch.no_grad(), Calls():
            return [llama(ids, attention_mask=mask).logits[mask.bool()] for mask in masks]

    fused = logits()
    assert "scaled_dot_product_attention" in calls
    patched("plain_attention")
    for before, after in zip(fused, logits(), strict=True):
        torch.testing.assert_close(before, after)
    assert "scaled_dot_product_attention" not in calls


def test_norm_in_float(llama: Any, patched: Patched) -> None:
    """A norm with weights in float32 returns the type of its input."""
    import torch

    norm, half = llama.model.norm, torch.ones(1, 32, dtype=torch.bfloat16)
    assert norm(half).dtype == torch.float32
    patched("norm_in_float")
    assert norm(half).dtype == torch.bfloat16
    torch.testing.assert_close(norm(half), torch.ones_like(half))


def test_tokenizer_length_quiet(patched: Patched, caplog: pytest.LogCaptureFixture) -> None:
    """The warning is gone, and the tokens are all there."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()

    def warnings() -> str:
        caplog.clear()
        logger = logging.get_logger("transformers")
        logger.addHandler(caplog.handler)
        try:
            tokens = PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=2)("a b b").input_ids
        finally:
            logger.removeHandler(caplog.handler)
        assert tokens == [0, 1, 1]
        return caplog.text

    assert "longer than the specified maximum sequence length for this model (3 > 2)" in warnings()
    patched("tokenizer_length_quiet")
    assert warnings() == ""


def test_cuda_rerouted(patched: Patched) -> None:
    """A module goes to the chosen device, whatever number the call names, and the wait is for that device."""
    import torch

    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.cuda.synchronize()
    patched("cuda_rerouted")
    model = torch.nn.Linear(1, 1).cuda(3)
    torch.cuda.synchronize()
    assert model.weight.device.type == "cpu"


def test_flash_attn_stub(patched: Patched, tmp_path: Path) -> None:
    """The file of a model that imports flash_attn behind a condition is accepted; afterwards it is refused again."""
    from transformers.dynamic_module_utils import check_imports

    file = tmp_path / "modeling_shop.py"
    file.write_text("def fast() -> bool:\n    return False\nif fast():\n    import flash_attn\n")
    assert "flash_attn" not in sys.modules
    with pytest.raises(ImportError, match=r"not found in your environment: flash_attn"):
        check_imports(file)
    patched("flash_attn_stub")
    assert check_imports(file) == []
