"""Export a GPT-Neo with the vendor's helper. This is the user's script; it knows nothing of hookpatch."""

import argparse
import tempfile
from pathlib import Path

import onnx
import torch
from third_party_api import prepare_model
from transformers import GPTNeoConfig, GPTNeoForCausalLM


def build_model(small: bool) -> GPTNeoForCausalLM:
    """GPT-Neo with random weights: 125M parameters, or 2 layers of width 64."""
    torch.manual_seed(0)
    layers, width, heads, tokens = (2, 64, 4, 512) if small else (12, 768, 12, 50257)
    config = GPTNeoConfig(
        vocab_size=tokens,
        bos_token_id=tokens - 1,
        eos_token_id=tokens - 1,
        num_layers=layers,
        hidden_size=width,
        num_heads=heads,
        attention_types=[[["global", "local"], layers // 2]],
        use_cache=False,
        return_dict=False,
    )
    return GPTNeoForCausalLM(config).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="2 layers of width 64 instead of 125M parameters")
    parser.add_argument("--output", default="gpt_neo.onnx", help="where the simplified model is saved")
    arguments = parser.parse_args()

    model = build_model(arguments.small)
    token_ids = torch.arange(16).reshape(1, 16)
    with tempfile.TemporaryDirectory() as folder:
        simplified = prepare_model(model, token_ids, str(Path(folder, "exported.onnx")))
    onnx.save_model(simplified, arguments.output)


if __name__ == "__main__":
    main()
