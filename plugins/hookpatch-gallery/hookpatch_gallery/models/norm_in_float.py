"""Multiply in float32 in the RMSNorm of Llama, and return the type of the input."""

from __future__ import annotations

from collections.abc import Iterator

import hookpatch


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Edit the last line of the method; all models that use the class have the edit."""
    yield hookpatch.edit(
        "transformers.models.llama.modeling_llama:LlamaRMSNorm.forward",
        "self.weight * hidden_states.to(input_dtype)",
        "(self.weight * hidden_states).to(input_dtype)",
        requires="transformers>=4.36,<6",
        why="with weights in float32 the output of a bfloat16 input is float32",
        upstream="https://github.com/huggingface/transformers/issues/30236",
    )
