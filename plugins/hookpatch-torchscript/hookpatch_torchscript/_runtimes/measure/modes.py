"""Prepare a model for each mode."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from hookpatch_torchscript._runtimes.jobs.job import EAGER, TORCHSCRIPT
from hookpatch_torchscript._runtimes.jobs.requirements import NotHereError, without_torchscript
from hookpatch_torchscript._runtimes.measure.factory import Built
from hookpatch_torchscript._runtimes.measure.onnxruntime import onnxruntime_call

Call = Callable[[], Any]


def prepare(mode: str, built: Built) -> Call:
    """Return a function that calls the model with its inputs in a mode.

    Raises:
        Exception: any error of torch if the mode cannot take the model.
        NotHereError: a requirement of the mode is missing.
    """
    if mode in TORCHSCRIPT and (why := without_torchscript(sys.version_info[:2])):
        raise NotHereError(why)
    return _PREPARE[mode](built)


def eager(built: Built) -> Call:
    """Return a function that calls the model itself."""
    return _calling(built.model, built)


def _calling(prepared: Any, built: Built) -> Call:
    inputs, keywords = built.inputs, built.keywords
    return lambda: prepared(*inputs, **keywords)


def _traced(built: Built) -> Call:
    # A trace made with keywords takes keywords only. Torch's check would trace twice and compare on the same inputs,
    # which is done here anyway; strict would refuse a returned dict.
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
        True  # compile anew: a cache of an earlier run would shorten the preparation
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
