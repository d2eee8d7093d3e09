"""accelerate: a hook around the forward of modules."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
from ports.accelerate import MODEL
from tiny import IDS, llama, parts

DISTRIBUTION, OWN = "accelerate", ("accelerate",)
SOURCES = ("accelerate.hooks:add_hook_to_module", "accelerate.hooks:remove_hook_from_module")
BODIES = {"new_forward", "doubled"}
PLAIN = llama()(IDS).logits


class Doubled(ModelHook):
    def post_forward(self, module: Any, output: Any) -> Any:
        return 2 * output


def owners() -> dict[str, object]:
    return parts(MODEL)


def covered() -> tuple[object, str]:
    return MODEL.lm_head, "forward"


def apply() -> None:
    for layer in MODEL.modules():
        if isinstance(layer, torch.nn.Linear):
            add_hook_to_module(layer, Doubled())


def undo() -> None:
    remove_hook_from_module(MODEL, recurse=True)


def is_hooked(model: Any) -> bool:
    return not torch.equal(model(IDS).logits, PLAIN)


def travels(model: Any) -> bool:
    try:
        return bool(pickle.loads(pickle.dumps(model)))
    except (AttributeError, TypeError, pickle.PicklingError):
        return False


def observe() -> dict[str, bool]:
    hooked, is_pickled = is_hooked(MODEL), travels(MODEL)
    return {
        "the model": hooked,
        "the model alone": hooked and not is_hooked(llama()),
        "a copy made inside": is_hooked(copy.deepcopy(MODEL)),
        "the model can be pickled": hooked and is_pickled,
    }
