"""Build the node of an RMSNorm, between two casts where torch computes in another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import onnx.parser
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype

from hookpatch_onnx._export.rewrite import Place
from hookpatch_onnx._nodes.rmsnorm import RMSNorm
from hookpatch_onnx.errors import NodeError

_OPSET_OF_RMS_NORMALIZATION: Final = 23


def put_norm(
    place: Place,
    norm: RMSNorm,
    options: Any,
    module: torch.nn.Module,
    name: str,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> Sequence[ir.Value]:
    """Put the node of an RMSNorm into the model; return the output of the node.

    In half precision the node computes in the same dtype as torch: if torch rounds after scaling, the node is
    between two casts.

    Args:
        place: the place of the region; its inputs are the module's input and, if the node takes the weight unchanged,
            the module's weight.
        norm: how the module normalizes.
        options: the options of the plugin.
        module: the module.
        name: the name of the module in the model.
        shape: the sizes of the normalized axes.
        dtype: the dtype of the input.
    """
    inside = computed_in(norm, dtype)
    x = place.inputs[0] if inside == dtype else _cast(place, place.inputs[0], inside)
    axes = {"axis": -norm.axes, "epsilon": norm.eps, "stash_type": 1}
    if options.domain:
        domain, op_type = options.domain, options.op_type
        if options.body:
            _tell_what_it_computes(place, domain, op_type, name)
    else:
        is_standard = place.opset >= _OPSET_OF_RMS_NORMALIZATION
        domain, op_type = "", "RMSNormalization" if is_standard else "SimplifiedLayerNormalization"
    y = place.add_node(domain, op_type, [x, _scale(place, norm, module, name, shape, inside)], axes)[0]
    y.dtype, y.shape = from_torch_dtype(inside), place.inputs[0].shape
    return [y if inside == norm.dtype else _cast(place, y, norm.dtype)]


def computed_in(norm: RMSNorm, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which the node of a norm computes, for the dtype of an input."""
    half = dtype not in (torch.float32, torch.float64)
    return torch.float32 if half and not (norm.rounds_first and norm.dtype == dtype) else dtype


def takes_weight(norm: RMSNorm, weight: torch.Tensor | None, dtype: torch.dtype) -> bool:
    """Return True if the node takes the weight of the module unchanged."""
    return norm.scale == "weight" and weight is not None and weight.dtype == computed_in(norm, dtype)


def _cast(place: Place, value: ir.Value, dtype: torch.dtype) -> ir.Value:
    return place.add_node("", "Cast", [value], {"to": from_torch_dtype(dtype).value})[0]


def _scale(
    place: Place, norm: RMSNorm, module: torch.nn.Module, name: str, shape: Sequence[int], dtype: torch.dtype
) -> ir.Value:
    weight = next(module.parameters(), None)
    if len(place.inputs) == 2:
        return place.inputs[1]
    if norm.scale == "1" or weight is None:
        scale = torch.ones([int(size) for size in shape], dtype=dtype)
    else:
        scale = (weight.detach().float() + (norm.scale == "1 + weight")).to(dtype)
    return place.constant(TorchTensor(scale.cpu(), name=f"{name}.scale"), f"{name}.scale")


def _tell_what_it_computes(place: Place, domain: str, op_type: str, name: str) -> None:
    """Add a local function of the node's name; the body follows ONNX's specification of RMSNormalization."""
    if not place.runs_functions:
        problem = f"cannot have its body in the model at opset {place.opset}: local functions came with opset 15; "
        problem += "export with a higher one, or without body (rmsnorm_node.body=false)"
        raise place.export.refuse(NodeError(place.plugin, name, problem))
    if (domain, op_type, "") in place.model.functions:
        return
    axes = "one" if place.opset >= 18 else ""
    attribute = "" if place.opset >= 18 else "<axes = [1]>"
    text = f"""
        <opset_import: ["" : {place.opset}], domain: "{domain}">
        {op_type} <axis: int = -1, epsilon: float = 0.00001, stash_type: int = 1> (x, scale) => (y)
        {{
            shape = Shape (x)
            any = Constant <value_ints = [-1]> ()
            size = Size (scale)
            width = Reshape (size, any)
            table = Concat <axis = 0> (any, width)
            rows = Reshape (x, table)
            exact = Cast <to = 1> (rows)
            square = Mul (exact, exact)
            one = Constant <value_ints = [1]> ()
            mean = ReduceMean {attribute} (square{"," + axes if axes else ""})
            eps = Constant <value_float: float = @epsilon> ()
            shifted = Add (mean, eps)
            root = Sqrt (shifted)
            divided = Div (exact, root)
            rounded = CastLike (divided, x)
            row = Constant <value_ints = [1, -1]> ()
            factor = Reshape (scale, row)
            scaled = Mul (rounded, factor)
            y = Reshape (scaled, shape)
        }}
    """
    function = ir.serde.deserialize_function(onnx.parser.parse_function(text))
    place.model.functions[function.identifier()] = function
