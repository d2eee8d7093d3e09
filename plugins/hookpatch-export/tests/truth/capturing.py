"""Code that asks torch whether it is captured is told that it is, while the model runs in eager mode.

A line that decides by a value only where nobody captures (``if not torch.jit.is_tracing() and mask.all()``) breaks no
capture. Torch's own code, which asks the same questions, gets the true answers.
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
    """Have torch say that it traces (``trace``) or exports (``export``)."""
    with ExitStack() as stack:
        for module, name in _ASKED[how]:
            stack.enter_context(mock.patch.object(module, name, _yes_to_the_model(getattr(module, name))))
        yield


def _yes_to_the_model(question: Callable[[], Any]) -> Callable[[], Any]:
    def answer() -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        return question() if asking.partition(".")[0] == "torch" else True

    return answer
