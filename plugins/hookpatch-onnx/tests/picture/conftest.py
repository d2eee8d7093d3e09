"""A real export, simplified with and without fuse_qkv."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
import pytest


@pytest.fixture(scope="session")
def gpt_neo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A GPT-Neo of two layers as exported, simplified (``fused``), and simplified without fuse_qkv (``kept``)."""
    import onnxsim

    torch = pytest.importorskip("torch", reason="torch is not installed: no build for this Python")
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    torch.manual_seed(0)
    sizes = {"num_layers": 2, "hidden_size": 32, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 32}
    config = GPTNeoConfig(attention_types=[[["global", "local"], 1]], use_cache=False, **sizes)
    tokens = torch.ones(1, 8, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        program = torch.onnx.export(GPTNeoForCausalLM(config).eval(), (tokens,), dynamo=True, verbose=False)
    folder = tmp_path_factory.mktemp("gpt_neo")
    proto = program.model_proto
    models = {
        "exported": proto,
        "fused": onnxsim.simplify(proto)[0],
        "kept": onnxsim.simplify(proto, skipped_optimizers=["fuse_qkv"])[0],
    }
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in models}
