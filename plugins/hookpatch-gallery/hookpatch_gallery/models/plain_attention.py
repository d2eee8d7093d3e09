"""Compute attention in transformers by matrix products, where it would call the fused operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hookpatch


def attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Any, None]:
    """Return the attention of a model in inference, with the arguments of the fused one."""
    groups, length = query.shape[1] // key.shape[1], query.shape[2]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (query @ key.transpose(2, 3)).float() * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is None and length > 1 and (module.is_causal if is_causal is None else is_causal):
        attention_mask = scores.new_ones(length, key.shape[2]).tril().bool()
    if attention_mask is not None and attention_mask.dtype.is_floating_point:
        scores = scores + attention_mask
    elif attention_mask is not None:
        scores = scores.masked_fill(attention_mask.logical_not(), -1e30)
    return (scores.softmax(-1).to(query.dtype) @ value).transpose(1, 2).contiguous(), None


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Replace the function wherever it is held: also in the registry of attentions."""
    yield hookpatch.replace(
        "transformers.integrations.sdpa_attention:sdpa_attention_forward",
        attention,
        reach="everywhere",
        requires="transformers>=5,<6",
        check_signature=False,
        why="compilers of other devices know no fused attention; cache and position_bias are not supported here",
        upstream="https://github.com/huggingface/transformers/issues/28610",
    )
