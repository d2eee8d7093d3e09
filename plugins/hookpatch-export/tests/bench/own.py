"""Cases of our own models, always with the same weights and values."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from truth.case import Case

from bench import own_models, own_models_more


def case(name: str) -> Case:
    """Return the case of one of our own models."""
    models: Any
    models, seed = (own_models, 1) if hasattr(own_models, name) else (own_models_more, 2)
    random = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=random)

    return Case(f"own:{name}", partial(_built, getattr(models, name)), models.inputs(some, whole)[name])


def _built(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()
