"""Find RMSNorms and tanh-approximated GELUs that are written out in a model, by the nodes of their formulas."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import onnx_ir as ir

from hookpatch_onnx._model.reads import GraphLike, graphs

_THERE = "is written out there"


def written_out_norms(model: ir.Model) -> dict[str, str]:
    """Return the parts of a model that compute 1 / sqrt(mean(x^2) + eps) node by node, each with the reason."""
    return {_part(node): _THERE for node in _nodes(model, "Sqrt") if _is_of_norm(node)}


def written_out_gelus(model: ir.Model) -> dict[str, str]:
    """Return the parts of a model that compute the tanh approximation of a GELU node by node, each with the reason."""
    return {_part(node): _THERE for node in _nodes(model, "Tanh") if _is_of_gelu(node)}


def _nodes(model: ir.Model, op_type: str) -> Iterator[ir.Node]:
    outermost: list[GraphLike] = [model.graph, *model.functions.values()]
    for outer in outermost:
        for graph in graphs(outer):
            yield from (node for node in graph if node.op_type == op_type and not node.domain)


def _is_of_norm(root: ir.Node) -> bool:
    mean = _before(root, "Add", lambda add: _before(add, "ReduceMean"))
    square = None if mean is None else _before(mean, "Pow", "Mul")
    if square is None or (square.op_type == "Mul" and square.inputs[0] is not square.inputs[1]):
        return False
    centred = square.inputs[0].producer() if square.inputs[0] is not None else None
    # A LayerNorm takes the mean of (x - mean(x))^2.
    return centred is None or centred.op_type != "Sub" or _before(centred, "ReduceMean") is None


def _is_of_gelu(tanh: ir.Node) -> bool:
    """Return True if 0.044715, to the digits of half precision, is among the numbers that lead to a tanh."""
    waiting, visits = [(tanh, 0)], 0
    while waiting and visits < 24:
        node, depth = waiting.pop()
        visits += 1
        for value in node.inputs:
            number = _number(value)
            if number is not None and abs(number - 0.044715) < 1e-4:
                return True
            producer = value.producer() if value is not None else None
            if producer is not None and depth < 6 and producer.op_type in ("Mul", "Add", "Pow", "Cast", "Div"):
                waiting.append((producer, depth + 1))
    return False


def _before(node: ir.Node, *op_types: str | Callable[[ir.Node], ir.Node | None]) -> ir.Node | None:
    """Return what makes an input of a node, by operator; with a function, what the function finds from there."""
    names = [op_type for op_type in op_types if isinstance(op_type, str)]
    further = next((op_type for op_type in op_types if not isinstance(op_type, str)), None)
    for value in node.inputs:
        producer = value.producer() if value is not None else None
        if producer is not None and producer.op_type in names:
            origin = further(producer) if further is not None else producer
            if origin is not None:
                return origin
    return None


def _number(value: ir.Value | None) -> float | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().reshape(())) if tensor is not None and tensor.size == 1 else None


def _part(node: ir.Node) -> str:
    """Return the module that a node comes from: by torch's metadata, or by the name from TorchScript's exporter."""
    if (scopes := node.metadata_props.get("pkg.torch.onnx.name_scopes")) is not None:
        return str(ast.literal_eval(scopes)[-2]) or "the model"
    return (node.name or "").strip("/").rpartition("/")[0].replace("/", ".") or "the model"
