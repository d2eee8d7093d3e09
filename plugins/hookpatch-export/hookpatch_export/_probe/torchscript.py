"""Capture a model by torch.jit.script, which compiles source and keeps most control flow."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from hookpatch_probe.example import Example, Run, Tensors, flat


def scripted(model: torch.nn.Module, example: Example) -> Run:
    """Return a function that runs the scripted model, each time in its original state.

    Args:
        model: a model that is used nowhere else.
        example: the example input.
    """
    jit: Any = torch.jit  # torch.jit has no type annotations
    compiled = jit.script(model)

    def run_compiled(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments([tensor.clone() for tensor in tensors])
        with _with_restored_state(compiled), jit.optimized_execution(False):  # each input has other sizes
            return [output.clone() for output in flat(compiled(*args, **kwargs))]

    return run_compiled


@contextlib.contextmanager
def _with_restored_state(compiled: Any) -> Iterator[None]:
    """Restore buffers and attributes of compiled modules that a call writes."""
    buffers = [(buffer, buffer.clone()) for buffer in compiled.buffers()]
    attributes = [
        (module._c, name, copy.deepcopy(value))
        for module in compiled.modules()
        if hasattr(module, "_concrete_type")
        for name, (_, is_parameter) in module._concrete_type.get_attributes().items()
        if not is_parameter and not isinstance(value := module._c.getattr(name), torch.Tensor)
    ]
    try:
        yield
    finally:
        for buffer, before in buffers:
            buffer.copy_(before)
        for module, name, value in attributes:
            module.setattr(name, value)
