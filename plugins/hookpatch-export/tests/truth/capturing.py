"""Answer yes when a model's code asks torch for a capture in progress, while the model runs in eager mode.

A line that decides by a value only outside of captures (``if not torch.jit.is_tracing() and mask.all()``) breaks no
capture. Torch's own code asks the same questions, and gets the true answers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

import torch

_ASKED: Final = {
    "trace": [(torch.jit, "is_tracing")],
    "export": [(torch.compiler, name) for name in ("is_compiling", "is_dynamo_compiling", "is_exporting")],
}
HOW: Final = tuple(_ASKED)


@contextmanager
def capturing(how: str) -> Iterator[None]:
    """Patch torch to answer that a trace (``trace``) or an export (``export``) is in progress."""
    with ExitStack() as stack:
        for module, name in _ASKED[how]:
            stack.enter_context(mock.patch.object(module, name, _yes_to_the_model(getattr(module, name))))
        yield


def _yes_to_the_model(question: Callable[[], Any]) -> Callable[[], Any]:
    def answer() -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        return question() if asking.partition(".")[0] == "torch" else True

    return answer
