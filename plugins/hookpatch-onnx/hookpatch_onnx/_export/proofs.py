"""Prove a rewrite by numbers: run the captured program on the example inputs, and compare each region with a node.

The inputs of a region are the values passed in the export. If the node would compute other results, the region stays
unchanged, and the receipt gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from hookpatch_onnx._export.export import Export

_proving: Final[ContextVar[Export | None]] = ContextVar("hookpatch_onnx_proving", default=None)


def compare(export: Export, number: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Compare the results of a region with the results of the node; note the region if the results differ."""
    region = export.regions[number]
    if region.refute is None:
        return
    if len(outputs) == 1 and isinstance(outputs[0], torch.Tensor):
        with torch.no_grad():
            reason = untraced(lambda: region.refute(inputs, outputs))
    else:
        reason = "returns something else than one tensor"
    if reason:
        export.refuted[number] = reason


def untraced(run: Callable[[], Any]) -> Any:
    """Return the result of a call, without a trace of the call in TorchScript's graph."""
    torchscript: Any = torch._C
    state = torchscript._get_tracing_state()
    torchscript._set_tracing_state(None)
    try:
        return run()
    finally:
        torchscript._set_tracing_state(state)


def compare_if_proving(number: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Compare a region of a captured program, while ``prove`` runs the program."""
    if (export := _proving.get()) is not None:
        compare(export, number, inputs, outputs)


def prove(export: Export, program: torch.export.ExportedProgram) -> None:
    """Run a captured program on the example inputs, and compare each region on the way.

    The program is not changed: the captured graph returns new values of buffers as results.
    """
    if not any(region.refute is not None for region in export.regions.values()):
        return
    problem = _run_program(export, program)
    for receipt in export.receipts.values() if problem else ():
        if any(region.plugin == receipt.plugin and region.refute for region in export.regions.values()):
            receipt.remarks.append(f"compared with torch at the modules alone: {problem}")


class _LastRegionError(Exception):
    """Ends a run: the last region has been compared."""


class _ToLastRegion(torch.fx.Interpreter):
    """Runs a captured program to the end of its last region: the head of a language model can cost as much as a layer.

    A branch of the program may hold regions, too: the run does not end before the last branch.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self._last: torch.fx.Node | None = None
        for node in module.graph.nodes:
            is_end = node.target is torch.ops.hookpatch_onnx.end.default
            if is_end or isinstance(node.target, torch._ops.HigherOrderOperator):
                self._last = node

    def run_node(self, node: torch.fx.Node) -> Any:
        """Run a node; end the run after the last region."""
        result = super().run_node(node)
        if node is self._last:
            raise _LastRegionError
        return result


def _run_program(export: Export, program: torch.export.ExportedProgram) -> str:
    """Run the program; return the reason for a failure, empty after a success."""
    if program.example_inputs is None:
        return "the captured program has no example inputs"
    inputs: Any = program._graph_module_flat_inputs(*program.example_inputs)
    if any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves(inputs)):
        return "the model or its example inputs are fake tensors"
    with torch.no_grad(), torch.random.fork_rng(devices=[]), _proving_of(export):
        try:
            _ToLastRegion(program.graph_module).run(*inputs)
        except _LastRegionError:
            pass
        except Exception as error:  # of the model on the inputs
            return f"the captured program raised {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""


@contextmanager
def _proving_of(export: Export) -> Iterator[None]:
    token = _proving.set(export)
    try:
        yield
    finally:
        _proving.reset(token)
