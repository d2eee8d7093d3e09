"""Run a hook around the forward of each linear layer of one model, as accelerate's hooks do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tiny import llama
from torch.nn import Linear

import hookpatch

MODEL = llama()


def doubled(wrapped: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
    return 2 * wrapped(*args, **kwargs)


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    for layer in MODEL.modules():
        if isinstance(layer, Linear):
            yield hookpatch.wrap(hookpatch.Target.attribute(layer, "forward"), doubled)
