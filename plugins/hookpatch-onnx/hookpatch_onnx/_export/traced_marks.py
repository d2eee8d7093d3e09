"""Merge equal operations beside the marks of TorchScript's graph; join the marks of the finished model.

The model has one node for each value of a mark; joined, one node for each begin and end of a region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import onnx_ir as ir

from hookpatch_onnx._export.region import DOMAIN, END, MARK, PLACE, REGION, TAKEN, TRACED, WHOLE
from hookpatch_onnx._model.reads import GraphLike, graphs

_Key: TypeAlias = tuple[int, str]  # the number of the region; the begin or the end


_UNIQUE: Final = 1 << 40  # no number of a model


def merge_beside_marks(graph: Any, merge: Callable[[Any], bool]) -> bool:
    """Merge the equal operations of TorchScript's graph by ``merge``, as in a graph without marks.

    A mark is a call of Python, so for all torch knows, the result might share memory with each input of the model. If
    the result of a mark is the result of the model, torch merges no casts and views of the inputs: for each of two
    attention masks a copy. Meanwhile a sum that no other sum equals stands for the mark. The marks of a function stay,
    since torch would share a node between the bodies.
    """
    marks = [node for node in graph.nodes() if node.kind() == "prim::PythonOp"]
    if any(mark.pyname() != WHOLE for mark in marks):
        return merge(graph)
    sums = [_put_sum(graph, mark, number) for number, mark in enumerate(marks)]
    try:
        return merge(graph)
    finally:
        for mark, chain in zip(marks, sums, strict=True):
            _take_sum(mark, chain)


def _put_sum(graph: Any, mark: Any, number: int) -> list[Any]:
    with graph.insert_point_guard(mark):
        unique = graph.insertConstant(_UNIQUE + number)
    chain: list[Any] = []
    for value in mark.inputs():
        terms = [value, unique, unique] if not chain else [chain[-1].output(), value, unique]
        chain.append(graph.create("aten::add", terms, 1))
        chain[-1].insertBefore(mark)
    mark.output().replaceAllUsesWith(chain[-1].output())
    mark.removeAllInputs()
    return chain


def _take_sum(mark: Any, chain: Sequence[Any]) -> None:
    first, *others = chain
    for value in (first.inputsAt(0), *(node.inputsAt(1) for node in others)):
        mark.addInput(value)
    unique = first.inputsAt(1).node()
    chain[-1].output().replaceAllUsesWith(mark.output())
    for node in (*reversed(chain), unique):
        node.destroy()


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
