"""Find RMSNorms and tanh-approximated GELUs that are written out in a model, by the nodes of their formulas."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import onnx_ir as ir

from hookpatch_onnx._export.receipt import BRANCH
from hookpatch_onnx._model.reads import GraphLike, graphs
from hookpatch_onnx._outside.side import first_name, module_of

_THERE: Final = "is written out there"
# 0.044715 of the formula, and its products with sqrt(2 / pi) and, for a sigmoid in place of tanh, with twice of it.
_OF_GELU: Final = (0.044715, 0.0356774, 0.0713548)
_TOWARDS_ROOT: Final = ("Add", "Max", "Min", "Clip", "Mul", "Div", "Cast", "CumSum")
_MOVES: Final = ("Transpose", "Unsqueeze", "Squeeze", "Reshape", "Identity")  # of the same numbers
_STEPS: Final = 5  # from the squares to the root, and from the root to the division


def written_out_norms(model: ir.Model, names: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a model that divide by the root of the mean of x^2 node by node, each with the reason."""
    return _named((node for node in _nodes(model, "Sqrt", "Pow", "ReduceL2") if _is_of_norm(node)), names)


def written_out_gelus(model: ir.Model, names: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a model that compute the tanh approximation of a GELU node by node, each with the reason."""
    return _named((node for node in _nodes(model, "Tanh", "Sigmoid", "Exp") if _is_of_gelu(node)), names)


def _named(found: Iterable[ir.Node], names: Mapping[str, str]) -> dict[str, str]:
    """Return the parts with these nodes. A module that has several counts them: "norm", "norm (2)"."""
    counts = Counter[str]()
    parts = {}
    for node in found:
        part = _part(node, names)
        counts[part] += 1
        parts[part if counts[part] == 1 else f"{part} ({counts[part]})"] = _THERE
    return parts


def _nodes(model: ir.Model, *op_types: str) -> Iterator[ir.Node]:
    outermost: list[GraphLike] = [model.graph, *model.functions.values()]
    for outer in outermost:
        for graph in graphs(outer):
            yield from (node for node in graph if node.op_type in op_types and not node.domain)


def _is_of_norm(root: ir.Node) -> bool:
    exponent = _number(root.inputs[1]) if root.op_type == "Pow" else 0.5
    if exponent is None or abs(exponent) != 0.5 or not (exponent < 0 or _divides(root)):
        return False
    if root.op_type == "ReduceL2":
        return _is_scaled(root, root)
    for node in _backwards(root, _TOWARDS_ROOT):
        if node.op_type in ("ReduceMean", "ReduceSum") and _is_of_squares(node):
            return node.op_type == "ReduceMean" or _is_scaled(root, node)
    return False


def _is_of_squares(mean: ir.Node) -> bool:
    square = _before(mean, "Pow", "Mul")
    if square is None or (square.op_type == "Mul" and square.inputs[0] is not square.inputs[1]):
        return False
    centred = _maker(square.inputs[0])
    # A LayerNorm takes the mean of (x - mean(x))^2.
    return centred is None or centred.op_type != "Sub" or _before(centred, "ReduceMean") is None


def _divides(root: ir.Node) -> bool:
    """Return True if something is divided by the root, or by its sum or product with a number."""
    return any(
        node.op_type == "Reciprocal" or (node.op_type == "Div" and node.inputs[1] is value)
        for node, value in _onwards(root)
    )


def _is_scaled(root: ir.Node, total: ir.Node) -> bool:
    """Return True if a sum of squares becomes their mean: by the width before the root, or by its root later."""
    between = [node for node in _backwards(root, _TOWARDS_ROOT) if node is not root]
    if any(node.op_type == "Div" for node in between):
        return True
    x = total.inputs[0]
    width = x.shape[-1] if x is not None and x.shape else None
    near = [*between, *(node for node, _ in _onwards(root))]
    near += [node for later in near for node in _backwards(later, ("Mul", "Div"), 2)]
    numbers = [abs(number) for node in near for value in node.inputs if (number := _number(value))]
    return any(_is_power_of(width, number) for number in numbers)


def _is_power_of(width: int | ir.SymbolicDim | None, number: float) -> bool:
    """Return True if a number is the width, its root, or one divided by these; any width below 65,536 if unknown."""
    if isinstance(width, int):
        return any(math.isclose(number, width**power, rel_tol=1e-3) for power in (-1, -0.5, 0.5, 1))
    square = max(number, 1 / number) ** 2
    return 4 <= square < 1 << 16 and math.isclose(square, round(square), rel_tol=1e-5)


def _backwards(node: ir.Node, op_types: tuple[str, ...], steps: int = _STEPS) -> Iterator[ir.Node]:
    """Yield the nodes whose results a node reads, through nodes of some operators, nearest first."""
    level = [node]
    for _ in range(steps):
        makers = [_maker(value) for before in level for value in before.inputs]
        producers = [maker for maker in makers if maker is not None]
        yield from producers
        level = [maker for maker in producers if maker.op_type in op_types]


def _onwards(node: ir.Node) -> Iterator[tuple[ir.Node, ir.Value]]:
    """Yield the nodes that read the result of a node, through products and sums, each with the value it reads."""
    level = [node]
    for _ in range(_STEPS):
        users = [(user, value) for before in level for value in before.outputs for user in value.consumers()]
        yield from users
        through = (*_TOWARDS_ROOT, "Expand", *_MOVES)
        level = [user for user, _ in users if user.op_type in through]


def _is_of_gelu(bend: ir.Node) -> bool:
    """Return True if a number of the formula, to the digits of half precision, leads to a tanh or sigmoid."""
    waiting, visits = [(bend, 0)], 0
    while waiting and visits < 24:
        node, depth = waiting.pop()
        visits += 1
        for value in node.inputs:
            number = _number(value)
            if number is not None and any(abs(abs(number) - known) < 1e-4 for known in _OF_GELU):
                return True
            producer = _maker(value)
            if producer is not None and depth < 6 and producer.op_type in ("Mul", "Add", "Pow", "Cast", "Div", "Neg"):
                waiting.append((producer, depth + 1))
    return False


def _before(node: ir.Node, *op_types: str) -> ir.Node | None:
    """Return what makes an input of a node, by operator."""
    makers = map(_maker, node.inputs)
    return next((maker for maker in makers if maker is not None and maker.op_type in op_types), None)


def _maker(value: ir.Value | None) -> ir.Node | None:
    """Return the node that computes a value, before nodes that only move numbers."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVES:
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    return node


def _number(value: ir.Value | None) -> float | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().reshape(())) if tensor is not None and tensor.size == 1 else None


def _part(node: ir.Node, names: Mapping[str, str]) -> str:
    """Return the module that a node comes from: by torch's metadata, or by the name from TorchScript's exporter."""
    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes")
    if scopes is not None and len(ast.literal_eval(scopes)) == 1:
        return BRANCH
    return first_name(module_of(node), names) or "the model"
