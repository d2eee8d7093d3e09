"""Capture a model four ways, as functions of tensors; or keep the error of a capture that failed."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

import torch
from hookpatch_probe.example import Example, Run, Tensors, flat

from hookpatch_export._probe.torchscript import scripted

_FATAL: Final = 4  # of onnxruntime's levels of severity
WORDS: Final = {"trace": "trace", "script": "script", "export": "export", "onnx": "ONNX"}


@final
@dataclass(frozen=True)
class Captured:
    """The result of one capture.

    Attributes:
        mode: the mode of capture, one of ``MODES``.
        run: a function that runs the captured model; None if the capture failed.
        error: why the capture failed, or works for the example's sizes only; None if neither.
        program: the ``torch.export.ExportedProgram`` of mode ``export``, the ``torch.onnx.ONNXProgram`` of ``onnx``.
    """

    mode: str
    run: Run | None
    error: Exception | None = None
    program: Any = None


def fresh(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a model that shares its parameters: writes to the copy's buffers and attributes are lost."""
    try:
        return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    except Exception:  # an object in the model cannot be copied
        return model


def eager(model: torch.nn.Module, example: Example) -> Run:
    """Return a function that runs the model itself, each time in its original state."""

    @torch.no_grad()
    def run_model(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments(tensors)
        return flat(fresh(model)(*args, **kwargs))

    return run_model


def captures(model: torch.nn.Module, example: Example) -> Iterator[Captured]:
    """Yield the model captured by torch.jit.trace, torch.jit.script, torch.export and torch.onnx.export."""
    yield _captured("trace", lambda: (_traced(model, example), None))
    yield _captured("script", lambda: (scripted(fresh(model), example), None))
    yield _dynamic("export", model, example, _exported)
    yield _dynamic("onnx", model, example, _onnx)


def _captured(mode: str, capture: Callable[[], tuple[Run, Any]]) -> Captured:
    try:
        run, program = capture()
    except Exception as error:  # of any class: the exporter's error is the result
        return Captured(mode, None, error)
    return Captured(mode, torch.no_grad()(run), None, program)


def _dynamic(
    mode: str, model: torch.nn.Module, example: Example, capture: Callable[[Any, Example, Any], tuple[Run, Any]]
) -> Captured:
    """Capture with every axis left open; if that fails, for the sizes of the example."""
    first = _captured(mode, lambda: capture(fresh(model), example, example.dynamic()))
    if first.run is not None:
        return first
    fixed = _captured(mode, lambda: capture(fresh(model), example, None))
    return Captured(mode, fixed.run, first.error, fixed.program)


class _OfTensors(torch.nn.Module):
    """A model as a function of tensors: torch.jit.trace takes no None, number or text, and returns tensors best."""

    def __init__(self, model: torch.nn.Module, example: Example) -> None:
        super().__init__()
        self.model = model
        self._example = example
        self.train(model.training)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = self._example.arguments(tensors)
        return tuple(flat(self.model(*args, **kwargs)))


def _traced(model: torch.nn.Module, example: Example) -> Run:
    tensors = tuple(tensor.clone() for tensor in example.tensors)
    copied = fresh(model)
    with _buffers_kept(copied):  # to trace it is to call it
        trace: Any = torch.jit.trace  # torch gives it no types
        traced = trace(_OfTensors(copied, example), tensors, check_trace=False)

    def run_trace(tensors: Tensors) -> list[torch.Tensor]:
        with _buffers_kept(traced):
            return [output.clone() for output in flat(traced(*(tensor.clone() for tensor in tensors)))]

    return run_trace


def _exported(model: torch.nn.Module, example: Example, shapes: Any) -> tuple[Run, Any]:
    args, kwargs = example.arguments(example.tensors)
    program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
    module = program.module()

    def run_module(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments(tensors)
        with _buffers_kept(module):
            return [output.clone() for output in flat(module(*args, **kwargs))]

    return run_module, program


def _onnx(model: torch.nn.Module, example: Example, shapes: Any) -> tuple[Run, Any]:
    args, kwargs = example.arguments(example.tensors)
    program: Any = torch.onnx.export(model, args, kwargs=kwargs, dynamo=True, dynamic_shapes=shapes, verbose=False)
    program.initialize_inference_session(_session)

    def run_program(tensors: Tensors) -> list[torch.Tensor]:
        args, kwargs = example.arguments(tensors)
        return flat(program(*args, **kwargs))

    return run_program, program


def _session(model: str | bytes) -> Any:
    import onnxruntime  # type: ignore[import-untyped]  # onnxruntime has no types

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    return _Silent(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))


class _Silent:
    """A session of onnxruntime that prints nothing: an input refused is an error in Python, too."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run_with_ort_values(self, names: Any, values: Any, run_options: Any) -> Any:
        run_options.log_severity_level = _FATAL  # torch asks for one less, from C, past Python's stderr
        return self._session.run_with_ort_values(names, values, run_options=run_options)


@contextlib.contextmanager
def _buffers_kept(module: torch.nn.Module) -> Iterator[None]:
    saved = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, before in saved:
            buffer.copy_(before)
