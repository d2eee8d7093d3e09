"""The ways to run a model: what is made of it once, and called from then on."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from hookpatch_torchscript._runtimes._factory import Built
from hookpatch_torchscript._runtimes._job import EAGER, TORCHSCRIPT
from hookpatch_torchscript._runtimes._onnxruntime import onnxruntime_call
from hookpatch_torchscript._runtimes._without import NotHereError, without_torchscript

Call = Callable[[], Any]


def prepare(mode: str, built: Built) -> Call:
    """Return what calls the model in a mode with its inputs.

    Raises:
        Exception: whatever torch raises where the mode cannot take the model.
        NotHereError: the mode wants something that is not here.
    """
    if mode in TORCHSCRIPT and (why := without_torchscript(sys.version_info[:2])):
        raise NotHereError(why)
    return _PREPARE[mode](built)


def eager(built: Built) -> Call:
    """Return what calls the model itself."""
    return _calling(built.model, built)


def _calling(made: Any, built: Built) -> Call:
    inputs, keywords = built.inputs, built.keywords
    return lambda: made(*inputs, **keywords)


def _traced(built: Built) -> Call:
    # What a trace takes by keyword it takes by keyword alone. A second trace to check the first would compare it on the
    # same inputs, which is done here anyhow; strict would refuse a dict that is returned.
    keywords: Mapping[str, Any] = built.keywords
    if keywords and built.inputs:
        bound = inspect.signature(built.model.forward).bind(*built.inputs, **keywords)
        keywords = bound.arguments
    example: dict[str, Any] = {"example_kwarg_inputs": dict(keywords)} if keywords else {"example_inputs": built.inputs}
    traced = torch.jit.trace(built.model, strict=False, check_trace=False, **example)  # type: ignore[no-untyped-call]  # torch has no types for it
    return (lambda: traced(**keywords)) if keywords else _calling(traced, built)


def _scripted(built: Built) -> Call:
    return _calling(torch.jit.script(built.model), built)


def _frozen(built: Built) -> Call:
    return _calling(torch.jit.freeze(torch.jit.script(built.model)), built)


def _compiled(built: Built) -> Call:
    import torch._inductor.config

    torch._inductor.config.force_disable_caches = (
        True  # compiled anew: what an earlier run left would be no preparation
    )
    return _calling(torch.compile(built.model), built)


def _exported(built: Built) -> Call:
    return _calling(torch.export.export(built.model, built.inputs, dict(built.keywords)).module(), built)


_PREPARE: Final[dict[str, Callable[[Built], Call]]] = {
    EAGER: eager,
    "trace": _traced,
    "script": _scripted,
    "script+freeze": _frozen,
    "compile": _compiled,
    "export": _exported,
    "onnxruntime": onnxruntime_call,
}
