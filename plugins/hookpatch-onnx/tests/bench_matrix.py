"""Export models of transformers unknown to the tests, with each exporter, and judge each export with the plugins on.

``right``: onnxruntime computes what eager torch does, and each norm and GELU is a node or named in the receipt.
``loud``: an error of hookpatch, or torch alone makes no model that onnxruntime runs. ``silent``: a part is neither a
node nor named. ``wrong``: other numbers, or the plugins break an export that torch alone can do.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import torch
import transformers
from exported import exported, ops, ran
from rich.console import Console
from rich.table import Table
from tiny_models import Masked

import hookpatch
from hookpatch.errors import HookpatchError

PLUGINS: Final = ("rmsnorm_node", "gelu_node")
KINDS: Final = {"rmsnorm_node": ("SimplifiedLayerNormalization", "RMSNormalization"), "gelu_node": ("Gelu",)}
GELUS: Final = ("NewGELUActivation", "BloomGelu", "FastGELUActivation", "AccurateGELUActivation")

_SIZES: Final[dict[str, Any]] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED: Final = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8}
_OLD: Final[dict[str, Any]] = {"vocab_size": 64, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
MODELS: Final[dict[str, dict[str, Any]]] = {
    "Mistral": _GROUPED,
    "Qwen2": _GROUPED,
    "Qwen3": _GROUPED,
    "Phi3": {**_SIZES, "num_key_value_heads": 2},
    "Gemma2": _GROUPED,
    "Gemma3Text": _GROUPED,
    "Cohere": _SIZES,
    "Cohere2": _GROUPED,
    "Olmo": _SIZES,
    "Olmo2": _SIZES,
    "Granite": _SIZES,
    "Starcoder2": {**_SIZES, "num_key_value_heads": 2},
    "StableLm": _SIZES,
    "Nemotron": {**_SIZES, "num_key_value_heads": 2},
    "Helium": _GROUPED,
    "Glm": {**_GROUPED, "partial_rotary_factor": 0.5},
    "SmolLM3": _SIZES,
    "Arcee": _GROUPED,
    "Ernie4_5": _GROUPED,
    "Exaone4": _GROUPED,
    "Apertus": _SIZES,
    "SeedOss": _GROUPED,
    "GPT2": {**_OLD, "n_embd": 32, "n_layer": 2, "n_head": 4},
    "GPTJ": {**_OLD, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 8},
    "Bloom": {**_OLD, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "CodeGen": {**_OLD, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 8},
    "Albert": {**_SIZES, "embedding_size": 16, "hidden_act": "gelu_new"},
    "Bert": {**_SIZES, "hidden_act": "gelu_new"},
    "UMT5": {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    "MT5": {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
}


def random_model(name: str) -> torch.nn.Module:
    """Return a model with random weights."""
    torch.manual_seed(0)
    settings = {**MODELS[name], "attn_implementation": "eager"}
    config = getattr(transformers, f"{name}Config")(**settings)
    family = name.removesuffix("Text")
    kinds = (f"{name}ForCausalLM", f"{family}ForCausalLM", f"{name}LMHeadModel", f"{name}EncoderModel", f"{name}Model")
    kind = next(
        model_class for kind_name in kinds if (model_class := getattr(transformers, kind_name, None)) is not None
    )
    model: torch.nn.Module = Masked(kind(config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model


def judged(model: torch.nn.Module, how: dict[str, Any]) -> tuple[str, str]:
    """Return the verdict on an export, and the receipts or the error."""
    ids = torch.arange(12).reshape(2, 6) + 3
    args = (ids, torch.ones_like(ids))
    try:
        ran(exported(model, *args, opset_version=20, **how), *args)
    except Exception as error:
        return "loud", f"torch alone: {type(error).__name__}"
    try:
        with hookpatch.active(*PLUGINS) as session:
            proto = exported(model, *args, opset_version=20, **how)
    except HookpatchError as error:
        return "loud", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {str(error)[:200]}"
    receipts = {row.plugin: row.notes[-1] for row in session.report() if row.notes}
    counts = {plugin: sum(ops(proto)[kind] for kind in kinds) for plugin, kinds in KINDS.items()}
    with torch.no_grad():
        wanted = model(*args)
    distance = float((torch.from_numpy(ran(proto, *args)[0]) - wanted).abs().max() / wanted.abs().max())
    words = "; ".join(receipts.get(plugin, "no receipt").partition("; onnx.checker")[0] for plugin in PLUGINS)
    if distance > 1e-4:
        return "wrong", f"{distance:.2g} off; {words}"
    for plugin, parts in (("rmsnorm_node", _norms(model)), ("gelu_node", _gelus(model))):
        note = receipts.get(plugin, "")
        unnamed = [part for part in parts if part not in note]
        if counts[plugin] < len(unnamed) and "more" not in note:
            return "silent", f"{counts[plugin]} of {len(unnamed)} unnamed parts: {words}"
    return "right", words


def _norms(model: torch.nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if "RMSNorm" in type(module).__name__]


def _gelus(model: torch.nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if type(module).__name__ in GELUS]


def cells(names: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield model, exporter, verdict and words."""
    for name in names:
        for exporter, how in (("dynamo", {}), ("torchscript", {"dynamo": False})):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield name, exporter, *judged(random_model(name), how)
            torch._dynamo.reset()
            gc.collect()


def main() -> None:
    """Print the table, and the counts."""
    table, counts = Table("model", "exporter", "verdict", "receipts"), Counter[str]()
    for name, exporter, verdict, words in cells(sys.argv[1:] or list(MODELS)):
        counts[verdict] += 1
        table.add_row(name, exporter, verdict, words)
        print(name, exporter, verdict, words, file=sys.stderr, flush=True)
    Console(width=160).print(table)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    sys.exit(bool(counts["silent"] + counts["wrong"]))


if __name__ == "__main__":
    main()
