"""Join the marks of TorchScript's graph, one node for each value, to one node for each begin and end of a region."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir

from hookpatch_onnx._export.region import DOMAIN, END, MARK, PLACE, REGION, TAKEN, TRACED
from hookpatch_onnx._model.reads import GraphLike, graphs

_Key: TypeAlias = tuple[int, str]  # the number of the region; the begin or the end


def join_marks(model: ir.Model) -> None:
    """Replace the marks that TorchScript's exporter left by the marks that the other exporter leaves."""
    for graph in graphs(model.graph):
        marks: dict[_Key, list[ir.Node]] = {}
        for node in graph:
            if node.op_type == TRACED and MARK in node.attributes:
                key = (node.attributes[REGION].as_int(), node.attributes[MARK].as_string())
                marks.setdefault(key, []).append(node)
        for (region, kind), nodes in marks.items():
            _join(graph, kind, region, nodes)
        for output in graph.outputs if marks else ():
            if output.shape is not None:
                output.shape = ir.Shape([_without_mark(size) for size in output.shape])


def _join(graph: GraphLike, kind: str, region: int, nodes: Sequence[ir.Node]) -> None:
    attributes = [ir.AttrInt64(REGION, region)]
    inputs = [node.inputs[0] for node in nodes]
    begin_count = nodes[0].attributes[TAKEN].as_int()
    if kind == END:
        attributes.append(ir.AttrInt64(TAKEN, begin_count))
        inputs = list(nodes[0].inputs[1:])
    mark = ir.Node(DOMAIN, kind, inputs, attributes, num_outputs=len(inputs) - begin_count)
    mark.metadata_props.update(nodes[-1].metadata_props)
    graph.insert_after(nodes[-1], mark)
    for node in nodes:
        place = node.attributes[PLACE].as_int()
        old, output = node.outputs[0], mark.outputs[place]
        output.type, output.shape = old.type, old.shape
        # Torch names a value by its operator, and counts the operators of a module.
        output.name = re.sub(rf"(^|/){TRACED}(_\d+)?_output_0$", rf"\1{kind}_output_{place}", old.name or "")
        old.replace_all_uses_with(output, replace_graph_outputs=True)
    graph.remove(nodes, safe=True)


def _without_mark(size: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
    """Return a size without the operator of a mark in its name: torch names unknown sizes by operator and value."""
    if isinstance(size, int) or size.value is None:
        return size
    return ir.SymbolicDim(re.sub(rf"^{TRACED}(?=.+_dim_\d+$)", "", size.value))
