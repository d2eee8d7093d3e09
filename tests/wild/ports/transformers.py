"""Exchange the MLP of Llama for another in models that are made from now on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hookpatch


def doubled(original: Any) -> Any:
    class Doubled(original):
        def forward(self, x: Any) -> Any:
            return 2 * super().forward(x)

    return Doubled


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    yield hookpatch.derive("transformers.models.llama.modeling_llama:LlamaMLP", doubled, reach="everywhere")
