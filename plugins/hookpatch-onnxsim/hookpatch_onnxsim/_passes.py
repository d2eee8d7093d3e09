"""How a call of onnxsim.simplify gets more optimizer passes to skip."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from hookpatch import Patch, wrap

SIMPLIFY: Final = "onnxsim.onnx_simplifier:simplify"


def skip_passes(passes: Iterable[str], why: str) -> Patch:
    """Return the patch that has every call of ``simplify`` skip these passes, besides those the caller skips.

    The callee gets a new list each time: onnxsim appends to it. With ``perform_optimization=False`` onnxsim runs no
    pass whatever the list says, and so it stays.

    Args:
        passes: names of onnxoptimizer passes, such as ``"fuse_qkv"``.
        why: what is wrong without it, in a line.
    """
    skipped = tuple(passes)

    def simplify(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = inspect.signature(wrapped).bind_partial(*args, **kwargs)
        callers = call.arguments.get("skipped_optimizers") or ()
        call.arguments["skipped_optimizers"] = list(dict.fromkeys([*callers, *skipped]))
        return wrapped(*call.args, **call.kwargs)

    return wrap(SIMPLIFY, simplify, reach="everywhere", requires="onnxsim>=0.4.36", why=why)
