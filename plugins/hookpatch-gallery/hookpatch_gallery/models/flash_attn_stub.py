"""Let models load whose code names flash_attn, on machines that have no flash_attn."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec

import hookpatch

STUB = module_from_spec(ModuleSpec("flash_attn", None))


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Put an empty module among the imported ones."""
    yield hookpatch.replace(
        "sys:modules['flash_attn']",
        STUB,
        add=True,
        requires="transformers>=4.36,<6",
        why="transformers refuses a model's file that imports flash_attn, also behind a condition",
        upstream="https://github.com/huggingface/transformers/issues/28459",
    )
