"""Build the nodes that the ``symbolic`` method of an autograd.Function declares.

The method is written for TorchScript's exporter, so the method gets a TorchScript graph with values of the right types.
The method may use all of torch.onnx.symbolic_helper, ``parse_args``, ``setType``. The nodes of that graph are
then copied into the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import onnx_ir as ir
import torch
from torch.onnx._internal.exporter import _core
from torch.onnx._internal.torchscript_exporter import jit_utils
from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

from hookpatch_onnx._export.rewrite import Place
from hookpatch_onnx.errors import NodeError

_Values: TypeAlias = dict[int, ir.Value]  # by TorchScript's number of the value

_GRAPHS: Final = {"onnx::If": ("then_branch", "else_branch"), "onnx::Loop": ("body",)}
_COUNT_AND_CONDITION: Final = (ir.DataType.INT64, ir.DataType.BOOL)  # the first inputs of a Loop's body
_TO_TORCH: Final = {_core.torch_dtype_to_onnx_dtype(dtype): dtype for dtype in _core._TORCH_DTYPE_TO_ONNX}


def declared_nodes(place: Place, function: type, args: Sequence[Any], part: str) -> Sequence[ir.Value]:
    """Put the nodes that ``function.symbolic`` declares into the model; return the returned values.

    Args:
        place: the place of the region.
        function: a subclass of ``torch.autograd.Function``.
        args: the arguments of the call, from ``without_tensors``; each tensor is the next input of the place.
        part: the name of the function, for messages.

    Raises:
        NodeError: a tensor is inside a list; the method raised an error, returned another number of values than
            ``forward``, or made a node that ONNX does not have.
    """
    graph = torch._C.Graph()
    values: _Values = {}

    def enter(value: ir.Value) -> torch._C.Value:
        inside = graph.addInput()
        inside.setType(_type_of(value))
        values[inside.unique()] = value
        return inside

    inputs = iter(place.inputs)
    arguments = [enter(next(inputs)) if arg is _TENSOR else arg for arg in args]
    if next(inputs, None) is not None:
        problem = (
            "cannot be declared: the function takes a list of tensors, which symbolic does not see; pass each tensor "
            "by itself"
        )
        raise place.export.refuse(NodeError(place.plugin, part, problem))
    context = jit_utils.GraphContext(graph, graph.block(), place.opset, None, {}, {}, set())  # type: ignore[arg-type]  # torch passes None here, too
    before = GLOBALS.export_onnx_opset_version
    GLOBALS.export_onnx_opset_version = place.opset
    try:
        returned = function.symbolic(context, *arguments)  # type: ignore[attr-defined]  # the caller has checked for the method
    except Exception as error:
        raise place.export.refuse(
            NodeError(place.plugin, part, f"cannot be declared: the symbolic raised {type(error).__name__}: {error}")
        ) from error
    finally:
        GLOBALS.export_onnx_opset_version = before
    outputs = list(returned) if isinstance(returned, tuple | list) else [returned]
    if len(outputs) != len(place.results):
        tensors = "1 tensor" if len(place.results) == 1 else f"{len(place.results)} tensors"
        problem = f"returns {tensors}, but its symbolic {len(outputs)} values; return as many"
        raise place.export.refuse(NodeError(place.plugin, part, problem))
    for node in graph.nodes():
        _take_over(place, node, values, part)
    results = [values[value.unique()] for value in outputs]
    # Each output needs a value of its own: an input that is returned, or a value returned twice, gets an Identity.
    return [
        value
        if value.producer() is not None and value not in results[:index] and value not in place.inputs
        else place.add_node("", "Identity", [value])[0]
        for index, value in enumerate(results)
    ]


class _Tensor:
    """A placeholder for a tensor among arguments."""


_TENSOR: Final = _Tensor()


def without_tensors(args: Sequence[Any]) -> list[Any]:
    """Return arguments with a placeholder for each tensor, for ``declared_nodes``."""
    return [_TENSOR if isinstance(arg, torch.Tensor) else arg for arg in args]


def _take_over(place: Place, node: torch._C.Node, values: _Values, part: str, graph: ir.Graph | None = None) -> None:
    """Copy a node of TorchScript's graph to the place of a region, or to the end of a graph inside a node."""
    if node.kind() == "prim::Constant" and node.mustBeNone():
        return
    domain, _, op_type = node.kind().partition("::")
    inputs = [values.get(value.unique()) for value in node.inputs()]
    attributes = [_attribute(place, node, name, part) for name in node.attributeNames()]
    attributes += _graphs(place, node, values, part)
    outputs = list(node.outputs())
    copies = place.add_node(
        "" if domain == "onnx" else domain, op_type, inputs, attributes, outputs=len(outputs), graph=graph
    )
    for old, value in zip(outputs, copies, strict=True):
        _declare(value, old.type())
        values[old.unique()] = value


def _graphs(place: Place, node: torch._C.Node, values: _Values, part: str) -> list[ir.Attr]:
    """Return the graphs inside a node as attributes; they may read the values around the node."""
    blocks: list[Any] = list(node.blocks())
    names = _GRAPHS.get(node.kind(), ())
    if len(blocks) != len(names):
        inside = f"{len(blocks)} graph{'s' * (len(blocks) != 1)} inside; an If has two, and a Loop has one"
        problem = f"cannot be declared: its symbolic makes a {node.kind()} with {inside}"
        raise place.export.refuse(NodeError(place.plugin, part, problem))
    attributes = []
    for name, block in zip(names, blocks, strict=True):
        inner_values, inputs = dict(values), [ir.Value(name=f"{name}_{old.unique()}") for old in block.inputs()]
        for value, dtype in zip(inputs, _COUNT_AND_CONDITION, strict=False):
            value.dtype, value.shape = dtype, ir.Shape([])
        for old, value in zip(block.inputs(), inputs, strict=True):
            _declare(value, old.type())
            inner_values[old.unique()] = value
        graph = ir.Graph(inputs, [], nodes=[], name=name)
        for inner_node in block.nodes():
            _take_over(place, inner_node, inner_values, part, graph)
        own = {value for inner_node in graph for value in inner_node.outputs}
        for old in block.outputs():  # a graph returns values of its own
            value = inner_values[old.unique()]
            graph.outputs.append(value if value in own else place.add_node("", "Identity", [value], graph=graph)[0])
        attributes.append(ir.AttrGraph(name, graph))
    return attributes


def _attribute(place: Place, node: torch._C.Node, name: str, part: str) -> ir.Attr:
    kind = node.kindOf(name)
    if kind == "t":
        return ir.AttrTensor(name, _core.TorchTensor(node.t(name)))
    if kind == "ts":
        return ir.AttrTensors(name, [_core.TorchTensor(tensor) for tensor in node.ts(name)])
    make: dict[str, Any] = {"f": ir.AttrFloat32, "fs": ir.AttrFloat32s, "i": ir.AttrInt64, "is": ir.AttrInt64s}
    make |= {"s": ir.AttrString, "ss": ir.AttrStrings}
    for candidate in (kind, "fs"):  # torch 2.13 calls a list of floats "c", which it cannot read by that name
        try:
            attribute: ir.Attr = make[candidate](name, getattr(node, candidate)(name))
            return attribute
        except (KeyError, RuntimeError):
            continue
    problem = f"cannot be declared: the symbolic gives the attribute '{name}' a type unknown to ONNX"
    raise place.export.refuse(NodeError(place.plugin, part, problem))


def _type_of(value: ir.Value) -> Any:
    """Return the TorchScript type of a value: dtype and known sizes."""
    if value.dtype is None:
        return torch._C.TensorType.get()
    dtype = _TO_TORCH[value.dtype]
    if value.shape is None:
        return torch._C.TensorType.get().with_dtype(dtype)
    like = torch._C.TensorType.create_from_tensor(torch.empty([1] * len(value.shape), dtype=dtype))
    return like.with_sizes([size if isinstance(size, int) else None for size in value.shape])


def _declare(value: ir.Value, kind: Any) -> None:
    """Set the dtype and sizes of a value as ``setType`` declares; ``forward`` gives torch the rest."""
    if not isinstance(kind, torch._C.TensorType):
        return
    if (dtype := kind.dtype()) is not None:
        value.dtype = _core.torch_dtype_to_onnx_dtype(dtype)
    sizes = kind.sizes() if kind.dim() is not None else None
    if sizes is not None and None not in sizes:
        value.shape = ir.Shape(sizes)
