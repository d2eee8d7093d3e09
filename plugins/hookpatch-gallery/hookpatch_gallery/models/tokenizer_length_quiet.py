"""Silence the warning of transformers that a text has more tokens than the model takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hookpatch


def warn_of_nothing(tokenizer: Any, ids: list[int], max_length: int | None, verbose: bool) -> None:
    """Warn of no length."""


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Replace the method that warns; the logger keeps its level for all other warnings."""
    yield hookpatch.replace(
        "transformers.tokenization_utils_base:PreTrainedTokenizerBase._eventual_warn_about_too_long_sequence",
        warn_of_nothing,
        requires="transformers>=4.36,<6",
        why="transformers warns of an error, although the program cuts the tokens itself",
        upstream="https://github.com/huggingface/transformers/issues/1791",
    )
