"""Mark a region of a model: the operations between two marks become one node.

A mark is an operator that returns its inputs. So torch captures, decomposes, converts and optimizes the operations
between two marks as usual, and the marks do not change any result. The marks are removed from the model, and from the
captured program, before the export returns.

TorchScript's exporter forgets every shape behind an operator that ONNX does not know. There a mark is one ``Identity``
for each value: ONNX infers its type from the first input, and does not look at further inputs and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch.utils import _pytree as pytree

from hookpatch_onnx._export.export import Export, State
from hookpatch_onnx._export.proofs import compare, compare_if_proving, untraced
from hookpatch_onnx.errors import NodeError

DOMAIN: Final = "hookpatch_onnx"
BEGIN, END = "Begin", "End"
TRACED: Final = "Identity"  # the operator of a mark in TorchScript's graph
CLASSES: Final = ("_Begin", "_End", "_Whole")  # of marks in TorchScript's graph; the last is both marks at once
MARK, REGION, TAKEN, PLACE = "hookpatch_mark", "region", "taken", "place"  # its attributes

Build: TypeAlias = Callable[[Any], Sequence[Any]]  # from a rewrite.Place to the outputs of the node
# From the inputs and results of a region to why the node would compute something else; empty if it would not.
Refute: TypeAlias = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], str]


@dataclass(frozen=True)
class Region:
    """One call of a part of the model that is to become a node.

    Attributes:
        plugin: the plugin that replaces the region.
        part: the name of the part, for messages.
        build: builds the node.
        alike: True if the node has one output, of the shape and dtype of the first input, and needs no operation
            between the marks. Then TorchScript's exporter need not convert these operations.
        refute: compares the results with those of the node; None if the node is made of the region's own operations,
            or declared by the user.
        module: the name of the module whose operations are the region; None if the region is a part of a module.
    """

    plugin: str
    part: str
    build: Build
    alike: bool = False
    refute: Refute | None = None
    module: str | None = None


def run_marked(
    export: Export, region: Region, run: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None
) -> Any:
    """Return ``run(*args, **kwargs)``, with a mark before and a mark after the call.

    The inputs of the node are the tensors among the arguments, in order.

    Raises:
        NodeError: the call returns neither a tensor nor a tuple or list of tensors, or changes an input in place.
    """
    functorch: Any = torch._C._functorch
    number = len(export.regions)
    export.regions[number] = region
    leaves, form = pytree.tree_flatten((tuple(args), kwargs or {}))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    inputs = [leaves[index] for index in places]
    if any(functorch.is_batchedtensor(value) or functorch.is_gradtrackingtensor(value) for value in inputs):
        export.refuted[number] = "is called by torch.vmap or torch.func, where a node would see other shapes"
        note_refuted(export, number)
        return run(*args, **(kwargs or {}))
    if region.alike and not export.dynamo:
        part = export.model.get_submodule(region.module)
        before = State.of(part)
        with torch.no_grad():  # TorchScript treats the result as a constant; a constant has no gradient
            whole = untraced(lambda: run(*args, **(kwargs or {})))
            compare(export, number, inputs, [whole])
        if number not in export.refuted:  # the result has the gradient of the inputs: hooks for it become nodes
            return _apply(_Whole, number, whole.detach, *inputs)
        before.restore(part)
        note_refuted(export, number)
        return run(*args, **(kwargs or {}))
    begin, end = (begin_mark, end_mark) if export.dynamo else (_begin_traced, _end_traced)
    inputs = begin(inputs, number)
    for index, marked in zip(places, inputs, strict=True):
        leaves[index] = marked
    args, kwargs = pytree.tree_unflatten(leaves, form)
    versions = [tensor._version for tensor in inputs]
    result = run(*args, **kwargs)
    if versions != [tensor._version for tensor in inputs]:
        problem = "cannot be one node: it changes an input in place, and a node of ONNX cannot; work on a clone"
        raise export.refuse(NodeError(region.plugin, region.part, problem))
    outputs = [result] if isinstance(result, torch.Tensor) else result
    if not isinstance(outputs, tuple | list) or not all(isinstance(output, torch.Tensor) for output in outputs):
        kinds = [_kind(output) for output in outputs] if isinstance(outputs, tuple | list) else []
        got = f"a {_kind(result)}" + (f" of {', '.join(kinds)}" if kinds else "")
        if region.refute is not None:  # the user has not declared the part
            export.refuted[number] = f"returned {got}; a node's outputs are tensors"
            note_refuted(export, number)
            return result
        problem = (
            f"cannot be one node: it returned {got}; a node's outputs are tensors: return a tensor or a tuple of "
            "tensors"
        )
        raise export.refuse(NodeError(region.plugin, region.part, problem))
    if not export.dynamo:
        compare(export, number, inputs, outputs)
    marked_outputs = end(inputs, list(outputs), number)
    return marked_outputs[0] if isinstance(result, torch.Tensor) else type(result)(marked_outputs)


def tensors_in(args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a call, in order."""
    return [leaf for leaf in pytree.tree_leaves((tuple(args), kwargs)) if isinstance(leaf, torch.Tensor)]


def is_in_operator() -> bool:
    """Return True in a branch or the body of torch.cond and the like, which torch.compile captures without marks."""
    return torch.compiler.is_dynamo_compiling()


def note_refuted(export: Export, number: int) -> None:
    """Note in the receipt that a region stays as it is."""
    region = export.regions[number]
    if (receipt := export.receipts.get(region.plugin)) is not None:
        receipt.miss({region.part: export.refuted[number]})


def _kind(value: object) -> str:
    return "Tensor" if isinstance(value, torch.Tensor) else type(value).__name__


@torch.library.custom_op(f"{DOMAIN}::begin", mutates_args=(), schema="(Tensor[] inputs, int region) -> Tensor[]")
def begin_mark(inputs: list[torch.Tensor], region: int) -> list[torch.Tensor]:
    """Mark the begin of a region: all inputs of the region go through the mark."""
    return [tensor.clone() for tensor in inputs]


@torch.library.custom_op(
    f"{DOMAIN}::end", mutates_args=(), schema="(Tensor[] inputs, Tensor[] outputs, int region) -> Tensor[]"
)
def end_mark(inputs: list[torch.Tensor], outputs: list[torch.Tensor], region: int) -> list[torch.Tensor]:
    """Mark the end of a region; takes the begin's outputs, too, since the region's outputs need not depend on them."""
    compare_if_proving(region, inputs, outputs)
    return [output.clone() for output in outputs]


begin_mark.register_fake(lambda inputs, region: [torch.empty_like(tensor) for tensor in inputs])
end_mark.register_fake(lambda inputs, outputs, region: [torch.empty_like(output) for output in outputs])


# TorchScript's exporter treats a function with a ``symbolic`` method as an operator.


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, region: int, *inputs: torch.Tensor) -> Any:
        return _alone([tensor.detach() for tensor in inputs])  # no view, so a caller may change the tensor in place

    @staticmethod
    def symbolic(g: Any, region: int, *inputs: Any) -> Any:
        return _alone(_mark(g, BEGIN, region, inputs))


class _End(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, region: int, begin_count: int, *values: torch.Tensor) -> Any:
        return _alone([value.detach() for value in values[begin_count:]])

    @staticmethod
    def symbolic(g: Any, region: int, begin_count: int, *values: Any) -> Any:
        return _alone(_mark(g, END, region, values[begin_count:], values[:begin_count]))


class _Whole(torch.autograd.Function):
    """Both marks, with the call between them untraced: else the graph would keep the traced call beside the marks."""

    @staticmethod
    def forward(ctx: Any, region: int, whole: Callable[[], torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        return whole()  # TorchScript would take a tensor among the arguments for an input

    @staticmethod
    def symbolic(g: Any, region: int, whole: Any, *inputs: Any) -> Any:
        marked = _mark(g, BEGIN, region, inputs)
        return _mark(g, END, region, marked[:1], marked)[0]


def _mark(g: Any, kind: str, region: int, values: Sequence[Any], begins: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Put the nodes of a mark into TorchScript's graph, one for each value.

    Each node of an end reads the outputs of the begin and all values, since torch removes the nodes of unused values.
    """
    extra = [*begins, *values] if kind == END else []
    attributes = {f"{MARK}_s": kind, f"{REGION}_i": region, f"{TAKEN}_i": len(begins)}
    return tuple(
        g.op(TRACED, value, *extra, **attributes, **{f"{PLACE}_i": place}) for place, value in enumerate(values)
    )


def _begin_traced(inputs: list[torch.Tensor], region: int) -> list[torch.Tensor]:
    return _listed(_apply(_Begin, region, *inputs)) if inputs else []


def _end_traced(inputs: list[torch.Tensor], outputs: list[torch.Tensor], region: int) -> list[torch.Tensor]:
    return _listed(_apply(_End, region, len(inputs), *inputs, *outputs))


def _alone(values: Sequence[Any]) -> Any:
    """Return the only value, or a tuple. TorchScript's exporter fails for a tuple that the model does not use."""
    return values[0] if len(values) == 1 else tuple(values)


def _listed(values: Any) -> list[torch.Tensor]:
    return list(values) if isinstance(values, tuple) else [values]


def _apply(function: Any, *args: Any) -> Any:
    return function.apply(*args)
