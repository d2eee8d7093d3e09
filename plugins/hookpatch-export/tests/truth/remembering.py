"""Replace ``int``, ``float`` and ``len`` in user modules: Python's own functions lose the origin of a number."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from truth.frames import is_user_code
from truth.number import Decided, Number, plain


@contextmanager
def remembering(decided: Decided) -> Iterator[None]:
    """Make ``int``, ``float`` and ``len`` in user modules return Numbers. The builtins must return plain numbers."""
    names: dict[str, Any] = {"len": _len(decided), "int": _convert(builtins.int), "float": _convert(builtins.float)}
    changed = []
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and is_user_code(file) and not _foreign(module.__name__):
            for name, value in names.items():
                if name not in vars(module):
                    vars(module)[name] = value
                    changed.append((module, name))
    try:
        yield
    finally:
        for module, name in changed:
            vars(module).pop(name, None)


def _foreign(name: str) -> bool:
    """Return True for an installed module outside of transformers: no model is defined in such a module."""
    return "site-packages" in (getattr(sys.modules[name], "__file__", "") or "") and not name.startswith(
        "transformers."
    )


def _len(decided: Decided) -> Callable[[Any], Any]:
    def measured(of: Any) -> Any:
        if isinstance(of, torch.Tensor) and builtins.len(of.shape):
            length = of.shape[0]
            if not isinstance(length, Number):  # of the model's state: a constant
                return length
            decided("shape", "len", length.value)
            return Number(length.value, "shape", decided)
        return builtins.len(of)

    return measured


def _convert(to: type) -> type:
    class Meta(type):
        def __call__(cls, value: Any = 0, *args: Any) -> Any:
            if isinstance(value, torch.Tensor) and plain(value.numel()) == 1:
                number = value.item()  # reports the decision
                return (
                    Number(to(plain(number)), number.kind, number.decided) if isinstance(number, Number) else to(number)
                )
            if isinstance(value, Number):
                value.decided(value.kind, to.__name__, value.value)
                return Number(to(value.value), value.kind, value.decided)
            return to(value, *args)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, to)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, to)

        def __getattr__(cls, name: str) -> Any:
            return getattr(to, name)

        def __eq__(cls, other: object) -> bool:
            return other is cls or other is to

        def __hash__(cls) -> int:
            return hash(to)

        def __or__(cls, other: Any) -> Any:
            return to | other

        def __ror__(cls, other: Any) -> Any:
            return other | to

    return Meta(to.__name__, (), {"stands_for": to})
