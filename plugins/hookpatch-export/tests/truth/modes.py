"""Capture a model in five modes, and return the outcome: a failure, a frozen decision, or agreement."""

from __future__ import annotations

import io
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import onnxruntime
import torch

from truth.agree import Run, disagreement
from truth.case import Case, Inputs, tensors
from truth.frames import Place, is_user_code

MODES: Final = ("trace", "script", "export", "onnx", "onnx-torchscript")

# Torch's words for a capture that stops at a value or at a size, and ours for a timeout.
_WORDS: Final = {
    "data": r"data-dependent|DataDependent|unbacked|Eq\(u\d|u\d+ [<>=!]|_local_scalar_dense|aten\.(nonzero|item|equal)"
    r"|\.numpy\(\) is not supported|Cannot call numpy|Cannot access data pointer",
    "time": r"^took longer than",
    "shape": r"ConstraintViolation|Constraints violated|conflicts between user-specified ranges|specialized"
    r"|marked .* as dynamic|[Nn]ot all values of .* are valid|L\['.*'\]\.size\(\)|guard.*size",
}


@dataclass
class Outcome:
    """The outcome of a capture.

    Attributes:
        became: ``failed``, ``froze`` (captured, but disagrees with eager on an input), or ``fine``.
        said: the error, or the disagreement.
        cause: of a failure, by torch's words: ``data``, ``shape``, ``time`` or ``other``.
        place: of a failure, the innermost line of user code; None if unknown.
        warned: the lines of user code that torch warned of.
    """

    became: str
    said: str = ""
    cause: str = ""
    place: Place | None = None
    warned: list[Place] = field(default_factory=list)


def captured(case: Case, mode: str) -> Outcome:
    """Capture a case in a mode, and run the capture on all inputs."""
    capture = _CAPTURES[mode]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run = capture(case)
        except Exception as error:
            first = _first(error)
            message = f"{type(first).__name__}: {first}"
            outcome = Outcome("failed", " ".join(message.split())[:400], cause(message), _place(first))
        else:
            wrong = disagreement(case, run)
            outcome = Outcome("froze", wrong) if wrong else Outcome("fine")
    warned = {
        Place(warning.filename, warning.lineno)
        for warning in caught
        if issubclass(warning.category, torch.jit.TracerWarning)
    }
    outcome.warned = sorted(place for place in warned if is_user_code(place.file))
    return outcome


def _first(error: BaseException) -> BaseException:
    """Return the first error of a chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def cause(message: str) -> str:
    """Return the cause of a failure, by the words of the error: a value, a size, lack of time, or another reason."""
    return next((cause for cause, words in _WORDS.items() if re.search(words, message)), "other")


def _place(error: BaseException) -> Place | None:
    """Return the last line of user code in the error's message, else the innermost line on the stack."""
    frames = [Place(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    named = [Place(file, int(line)) for file, line in re.findall(r'File "([^"]+)", line (\d+)', str(error))]
    own = [place for place in (named or frames) if is_user_code(place.file)]
    own = own or [place for place in frames if is_user_code(place.file)]
    return own[-1] if own else None


class _Flat(torch.nn.Module):
    """A model with positional tensors as inputs and a tuple of tensors as output, as tracing requires."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensors(self.model(**dict(zip(self.names, values, strict=True)))))


def _flat(case: Case) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    inputs = case.inputs[0]
    return _Flat(case.build(), [*inputs]).eval(), tuple(value.clone() for value in inputs.values())


def _trace(case: Case) -> Run:
    flat, values = _flat(case)
    with torch.no_grad():
        traced = torch.jit.trace(flat, values, check_trace=False)
    return lambda inputs: list(traced(*inputs.values()))


def _script(case: Case) -> Run:
    scripted = torch.jit.script(case.build())
    return lambda inputs: tensors(scripted(**inputs))


def _shapes(case: Case) -> dict[str, Any]:
    return {name: dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for name, dims in case.dynamic.items()}


def _export(case: Case) -> Run:
    model, inputs = case.build(), {name: value.clone() for name, value in case.inputs[0].items()}
    with torch.no_grad():
        program = torch.export.export(model, (), inputs, dynamic_shapes=_shapes(case), strict=False)
    module = program.module()
    return lambda inputs: tensors(module(**inputs))


def _onnx(case: Case) -> Run:
    model, inputs = case.build(), {name: value.clone() for name, value in case.inputs[0].items()}
    program = torch.onnx.export(
        model, (), kwargs=inputs, dynamic_shapes=_shapes(case), dynamo=True, verbose=False, input_names=[*inputs]
    )
    return _session(program.model_proto.SerializeToString())


def _onnx_torchscript(case: Case) -> Run:
    flat, values = _flat(case)
    out = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            flat,
            values,
            out,
            dynamo=False,
            input_names=[*case.inputs[0]],
            dynamic_axes={name: dims for name, dims in case.dynamic.items() if dims},
        )
    return _session(out.getvalue())


def _session(model: bytes) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {argument.name for argument in session.get_inputs()}

    def run(inputs: Inputs) -> list[torch.Tensor]:
        feeds = {name: value.numpy() for name, value in inputs.items() if name in names}
        return [torch.as_tensor(output) for output in session.run(None, feeds)]

    return run


_CAPTURES: dict[str, Callable[[Case], Run]] = {
    "trace": _trace,
    "script": _script,
    "export": _export,
    "onnx": _onnx,
    "onnx-torchscript": _onnx_torchscript,
}
