"""Run ``onnx.checker`` on a model that plugins have changed; name the refused nodes of plugins."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import onnx
import onnx_ir as ir

from hookpatch_onnx._export.receipt import Receipt
from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx.errors import CheckerWarning

_UNCHECKED: Final = "hookpatch_onnx.refused"  # ONNX's checker takes any node of an unknown domain


def check(model: ir.Model, receipts: Mapping[str, Receipt]) -> None:
    """Check a model without weights, and put each refused node into the receipt of the node's plugin.

    Args:
        model: the model, of which no mark is left.
        receipts: the receipts, by plugin.
    """
    if not any(receipt.made for receipt in receipts.values()):
        return
    for plugin, op_type, reason in _refusals(_without_weights(model)):
        receipt = receipts.get(plugin) or next(iter(receipts.values()))
        part = f"{op_type} at opset {model.opset_imports['']}" if op_type else "the model"
        remark = f"onnx.checker refuses {part} ({reason})"
        receipt.remarks.append(f"{remark}: {receipt.refused}" if op_type and receipt.refused else remark)
        if not (op_type and receipt.refused):
            warnings.warn(CheckerWarning(receipt.plugin, part, reason), stacklevel=2)


def _refusals(proto: onnx.ModelProto) -> list[tuple[str, str, str]]:
    """Return the plugin, the operator and the reason of each refusal; no operator if no plugin made the node."""
    added = [(node, by) for node in _nodes([*proto.graph.node, *_bodies(proto)]) if (by := _made_by(node))]
    refusals: list[tuple[str, str, str]] = []
    while True:
        try:
            onnx.checker.check_model(proto)
        except onnx.checker.ValidationError as error:
            reason = str(error).strip().partition("\n")[0]
            refused = re.search(r"(?:OpType:|No Op registered for) (\S+)", str(error))
            op_type = refused[1] if refused else ""
            guilty = [(node, by) for node, by in added if node.op_type == op_type and node.domain != _UNCHECKED]
            if not guilty:  # a node of torch's, which no plugin has touched
                return [*refusals, ("", "", reason)]
            refusals.append((guilty[0][1], op_type, reason))
            for node, _ in guilty:
                node.domain = _UNCHECKED
            for imports in [part.opset_import for part in (proto, *proto.functions)]:
                if all(opset.domain != _UNCHECKED for opset in imports):
                    imports.add(domain=_UNCHECKED, version=1)
        else:
            return refusals


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """Return a model whose initializers are inputs instead."""
    proto = onnx.ModelProto(ir_version=model.ir_version, producer_name="hookpatch")
    proto.opset_import.extend(onnx.helper.make_opsetid(*opset) for opset in model.opset_imports.items())
    proto.functions.extend(ir.to_proto(function) for function in model.functions.values())
    graph = proto.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(ir.to_proto(node) for node in model.graph)
    inputs = dict.fromkeys([*model.graph.inputs, *model.graph.initializers.values()])
    graph.input.extend(ir.to_proto(value) for value in inputs)
    graph.output.extend(ir.to_proto(value) for value in model.graph.outputs)
    return proto


def _bodies(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for function in proto.functions for node in function.node]


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and the nodes of the graphs in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)


def _made_by(node: onnx.NodeProto) -> str:
    return next((prop.value for prop in node.metadata_props if prop.key == MADE_BY), "")
