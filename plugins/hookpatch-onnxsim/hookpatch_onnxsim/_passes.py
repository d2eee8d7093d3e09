"""How a call of onnxsim.simplify gets more optimizer passes to skip."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from hookpatch import Patch, wrap

SIMPLIFIER: Final = "onnxsim.onnx_simplifier"
RELEASES: Final = "onnxsim>=0.4.36"
FUSED: Final = "https://github.com/onnxsim/onnxsim/issues/356"  # how to keep the projections apart

_SKIPPED: Final = "skipped_optimizers"


def skip_passes(passes: Iterable[str], why: str, requires: str = RELEASES, upstream: str = FUSED) -> Patch:
    """Return a patch that makes every call of ``simplify`` skip passes, besides the caller's.

    The callee gets a new list each time: onnxsim appends to it. With ``perform_optimization=False`` onnxsim runs no
    pass whatever the list says, and the patch leaves the call alone.

    Args:
        passes: names of optimizer passes, such as ``"fuse_qkv"``; read at each call. onnxsim ignores unknown names.
        why: what is wrong without it, in a line.
        requires: the releases of onnxsim it is made for.
        upstream: the issue of onnxsim that it is about.
    """

    def simplify(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        index = list(inspect.signature(wrapped).parameters).index(_SKIPPED)
        callers = args[index] if index < len(args) else kwargs.get(_SKIPPED)
        if not isinstance(callers, list | tuple | None):
            return wrapped(*args, **kwargs)  # refused by onnxsim; a text would be read letter by letter
        merged = list(dict.fromkeys([*(callers or ()), *passes]))
        if index < len(args):
            return wrapped(*args[:index], merged, *args[index + 1 :], **kwargs)
        return wrapped(*args, **{**kwargs, _SKIPPED: merged})

    return wrap(
        f"{SIMPLIFIER}:simplify",
        simplify,
        expects=_SKIPPED,
        reach="everywhere",
        requires=requires,
        why=why,
        upstream=upstream,
    )
