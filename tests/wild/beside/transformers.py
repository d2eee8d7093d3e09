"""transformers' own patches of classes, ``transformers.monkey_patching``."""

from __future__ import annotations

import sys
import types

import torch
from ports.transformers import doubled
from tiny import IDS, llama
from transformers import monkey_patching
from transformers.models.llama import modeling_llama

DISTRIBUTION, OWN = "transformers", ()
_NAMES = ("_compile_pattern", "_find_replacement_class", "register_patch_mapping", "unregister_patch_mapping")
SOURCES = tuple(f"transformers.monkey_patching:{name}" for name in (*_NAMES, "get_patch_mapping", "apply_patches"))
BODIES = {"doubled"}

shop = types.ModuleType("shop")
exec("from transformers.models.llama.modeling_llama import LlamaMLP\nLAYERS = {'mlp': LlamaMLP}", vars(shop))
sys.modules["shop"] = shop
sys.modules["late"] = late = types.ModuleType("late")  # executed anew while the patch holds
LATE = "from transformers.models.llama.modeling_llama import LlamaMLP"
exec(LATE, vars(late))
PLAIN = llama()(IDS).logits
Doubled = doubled(modeling_llama.LlamaMLP)
block = monkey_patching.apply_patches()


def apply() -> None:
    monkey_patching.register_patch_mapping({"LlamaMLP": Doubled})
    block.__enter__()


def undo() -> None:
    block.__exit__(None, None, None)
    monkey_patching.unregister_patch_mapping(["LlamaMLP"])


def is_doubled(kind: type[torch.nn.Module]) -> bool:
    return kind.__name__ == "Doubled"


def observe() -> dict[str, bool]:
    model = llama()
    if is_doubled(modeling_llama.LlamaMLP):
        exec(LATE, vars(late))
    return {
        "a model made inside": not torch.equal(model(IDS).logits, PLAIN),
        "a name bound before": is_doubled(shop.LlamaMLP),
        "a mapping": is_doubled(shop.LAYERS["mlp"]),
        "a name bound meanwhile": is_doubled(late.LlamaMLP),
    }
