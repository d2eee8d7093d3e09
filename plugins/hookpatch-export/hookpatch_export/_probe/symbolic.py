"""Find autograd.Functions with a ``symbolic``, which torch.onnx.export(dynamo=True) never calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hookpatch


def functions_with_symbolic(run: Callable[[], object]) -> list[str]:
    """Return the names of the autograd.Functions with a ``symbolic`` that a run applies, in order."""
    names: dict[str, None] = {}

    def apply(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if hasattr(instance, "symbolic") and not instance.__module__.startswith("torch."):
            names[f"{instance.__module__}.{instance.__qualname__}"] = None
        return wrapped(*args, **kwargs)

    patch = hookpatch.wrap("torch.autograd.function:Function.apply", apply, reach="everywhere")
    with hookpatch.active(patch, scope="task", children="local"):
        run()
    return list(names)
