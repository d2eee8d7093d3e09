"""Warn before each export of the lines of the model that will not survive the export, with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal

import hookpatch

WHY: Final = "torch is silent about branches on a shape and about unrolled loops, and freezes them"
UPSTREAM: Final = "https://github.com/pytorch/pytorch/pull/10841"  # a list of the ways in which a trace is wrong
CALLS: Final = {
    "torch.onnx:export": "model",
    "torch.export:export": "mod",
    "torch.jit:trace": "func",
    "torch.jit:script": "obj",
}

_running: Final[ContextVar[bool]] = ContextVar("hookpatch_export", default=False)


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        level: the least kind to warn of.
        fail: whether a finding is an error, so that nothing is exported.
    """

    level: Literal["data", "shape", "config"] = "shape"
    fail: bool = False


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Scan the model at each call of torch.onnx.export, torch.export.export, torch.jit.trace and torch.jit.script."""
    for address, parameter in CALLS.items():
        wrapper = _scan_first(address.replace(":", "."), parameter, options)
        yield hookpatch.wrap(address, wrapper, reach="everywhere", requires="torch>=2.13", why=WHY, upstream=UPSTREAM)


def _scan_first(call: str, parameter: str, options: Options) -> Callable[..., Any]:
    """Return the wrapper of an export function. A call inside another export is not scanned again."""

    def captured(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        model = args[0] if args else kwargs.get(parameter)
        if _running.get() or model is None:
            return wrapped(*args, **kwargs)
        # This import loads torch, already imported at an export.
        from hookpatch_export._show.export_warnings import names_of_caller, scan_and_warn

        if isinstance(model, type) and call == "torch.jit.script" and len(args) < 4 and kwargs.get("_rcb") is None:
            kwargs = {**kwargs, "_rcb": names_of_caller()}
        token = _running.set(True)
        try:
            scan_and_warn(call, model, args, kwargs, level=options.level, fail=options.fail)
            return wrapped(*args, **kwargs)
        finally:
            _running.reset(token)

    return captured
