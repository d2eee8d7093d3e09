"""Capture a model in each mode of torch. A captured model takes the arguments of the model."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch.fx.experimental.proxy_tensor import make_fx

Run: TypeAlias = Callable[..., Any]


class Capture(NamedTuple):
    """One capture mode."""

    make: Callable[[Any, tuple[Any, ...]], Run]  # returns the captured model for a model and its inputs
    keeps: bool = False  # True if the captured model never changes, such as an exported program
    needs: tuple[str, ...] = ()  # the modules needed besides torch
    on_cuda: bool = False  # True if the mode needs a CUDA device, and inputs there
    is_slow: bool = False  # True if a capture takes seconds: effect() tries the mode only by name

    @property
    def missing(self) -> str | None:
        """Return in words which needed modules are not installed, or that there is no device; None if all are here."""
        if self.on_cuda and not torch.cuda.is_available():
            return "torch sees no CUDA device"
        missing = [name for name in self.needs if find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else None


class _OfFunction(torch.nn.Module):
    """A function as a module, for exporters."""

    def __init__(self, function: Run) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _module(model: Any) -> torch.nn.Module:
    return model if isinstance(model, torch.nn.Module) else _OfFunction(model)


def _exported(model: Any, inputs: tuple[Any, ...], strict: bool) -> Run:
    return torch.export.export(_module(model), inputs, strict=strict).module()


def _onnx(model: Any, inputs: tuple[Any, ...], dynamo: bool) -> Run:
    import onnx
    from onnx.reference import ReferenceEvaluator

    file = io.BytesIO()
    if dynamo:
        program = torch.onnx.export(_module(model), inputs, dynamo=True, verbose=False)
        assert program is not None  # the result of an export without a path
        program.save(file)  # type: ignore[arg-type]  # accepts an open file, too
    else:
        torch.onnx.export(_module(model), inputs, file, dynamo=False)  # type: ignore[arg-type]  # accepts a file
    session = ReferenceEvaluator(onnx.load_from_string(file.getvalue()))

    def run_session(*inputs: Any) -> list[Any]:
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        arrays = {name: leaf.detach().cpu().numpy() for name, leaf in zip(session.input_names, leaves, strict=True)}
        return [torch.as_tensor(output) for output in session.run(None, arrays)]

    return run_session


def _cuda_graph(model: Any, inputs: tuple[Any, ...]) -> Run:
    """Return a function that replays the kernels of one call; a function is captured, since torch changes a module."""
    if not all(isinstance(tensor, torch.Tensor) and tensor.is_cuda for tensor in inputs):
        raise ValueError("a CUDA graph takes CUDA tensors alone")
    replay: Run = torch.cuda.make_graphed_callables(lambda *args: model(*args), inputs)
    return replay


def _with_cuda_graphs(model: Any, inputs: tuple[Any, ...]) -> Run:
    return torch.compile(model, fullgraph=True, mode="reduce-overhead")


CAPTURES: Final[Mapping[str, Capture]] = {
    "eager": Capture(lambda model, inputs: model),
    "compile": Capture(lambda model, inputs: torch.compile(model, backend="eager")),
    "compile fullgraph": Capture(lambda model, inputs: torch.compile(model, backend="eager", fullgraph=True)),
    "inductor": Capture(lambda model, inputs: torch.compile(model, fullgraph=True), is_slow=True),
    "export": Capture(partial(_exported, strict=False), keeps=True),
    "export strict": Capture(partial(_exported, strict=True), keeps=True),
    "jit.trace": Capture(partial(torch.jit.trace, check_trace=False, strict=False), keeps=True),
    "jit.script": Capture(lambda model, inputs: torch.jit.script(model), keeps=True),
    "fx": Capture(lambda model, inputs: torch.fx.symbolic_trace(model), keeps=True),
    "make_fx": Capture(lambda model, inputs: make_fx(model)(*inputs), keeps=True),
    "onnx": Capture(partial(_onnx, dynamo=True), keeps=True, needs=("onnx", "onnxscript")),
    "onnx torchscript": Capture(partial(_onnx, dynamo=False), keeps=True, needs=("onnx",)),
    "cuda graph": Capture(_cuda_graph, keeps=True, on_cuda=True),
    "inductor cuda graphs": Capture(_with_cuda_graphs, on_cuda=True, is_slow=True),
}
