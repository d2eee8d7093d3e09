"""The ways in which torch captures code: each makes of a model something that is called as the model is."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, TypeAlias, final

import torch

Run: TypeAlias = Callable[..., Any]


@final
@dataclass(frozen=True, slots=True)
class Capture:
    """One way. Frozen.

    Attributes:
        make: makes something to call of a model and its inputs.
        keeps: True for an artifact that keeps what it captured, whatever comes later.
        needs: the modules that it takes beside torch.
        is_slow: True for one that takes seconds each time, and is tried only where it is named.
    """

    make: Callable[[Any, tuple[Any, ...]], Run]
    keeps: bool = False
    needs: tuple[str, ...] = ()
    is_slow: bool = False

    @property
    def missing(self) -> str | None:
        """What it takes and is not installed, in words; None if all is."""
        missing = [name for name in self.needs if find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None


class _OfFunction(torch.nn.Module):
    """A function as a module: exporters take nothing else."""

    def __init__(self, function: Run) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _module(model: Any) -> torch.nn.Module:
    return model if isinstance(model, torch.nn.Module) else _OfFunction(model)


def _compiled(model: Any, inputs: tuple[Any, ...], **options: Any) -> Run:
    return torch.compile(model, **options)


def _exported(model: Any, inputs: tuple[Any, ...], strict: bool) -> Run:
    return torch.export.export(_module(model), inputs, strict=strict).module()


def _traced(model: Any, inputs: tuple[Any, ...]) -> Run:
    traced: Run = torch.jit.trace(model, inputs, check_trace=False, strict=False)  # type: ignore[no-untyped-call]  # torch's
    return traced


def _scripted(model: Any, inputs: tuple[Any, ...]) -> Run:
    scripted: Run = torch.jit.script(model)
    return scripted


def _onnx(model: Any, inputs: tuple[Any, ...], dynamo: bool) -> Run:
    import onnx
    from onnx.reference import ReferenceEvaluator

    file = io.BytesIO()
    if dynamo:
        program = torch.onnx.export(_module(model), inputs, dynamo=True, verbose=False)
        assert program is not None  # without a file's name it returns the program
        program.save(file)  # type: ignore[arg-type]  # it writes into what is open, too
    else:
        torch.onnx.export(_module(model), inputs, file, dynamo=False)  # type: ignore[arg-type]  # likewise
    session = ReferenceEvaluator(onnx.load_from_string(file.getvalue()))

    def run(*inputs: Any) -> list[Any]:
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        given = {name: leaf.detach().cpu().numpy() for name, leaf in zip(session.input_names, leaves, strict=True)}
        return [torch.as_tensor(output) for output in session.run(None, given)]

    return run


CAPTURES: Final[Mapping[str, Capture]] = {
    "eager": Capture(lambda model, inputs: model),
    "compile": Capture(partial(_compiled, backend="eager")),
    "compile fullgraph": Capture(partial(_compiled, backend="eager", fullgraph=True)),
    "inductor": Capture(partial(_compiled, fullgraph=True), is_slow=True),
    "export": Capture(partial(_exported, strict=False), keeps=True),
    "export strict": Capture(partial(_exported, strict=True), keeps=True),
    "jit.trace": Capture(_traced, keeps=True),
    "jit.script": Capture(_scripted, keeps=True),
    "onnx": Capture(partial(_onnx, dynamo=True), keeps=True, needs=("onnx", "onnxscript")),
    "onnx torchscript": Capture(partial(_onnx, dynamo=False), keeps=True, needs=("onnx",)),
}
