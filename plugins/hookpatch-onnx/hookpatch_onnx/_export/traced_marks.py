"""Merge equal operations beside the marks of TorchScript's graph; join the marks of the finished model.

The model has one node for each value of a mark; joined, one node for each begin and end of a region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import onnx_ir as ir

from hookpatch_onnx._export.region import CLASSES, DOMAIN, END, MARK, PLACE, REGION, TAKEN, TRACED
from hookpatch_onnx._model.reads import GraphLike, graphs

_Key: TypeAlias = tuple[int, str]  # the number of the region; the begin or the end


_UNIQUE: Final = 1 << 40  # no number of a model
_INSIDE: Final = "hookpatch_region"  # the attribute of the operations between two marks


def merge_beside_marks(graph: Any, merge: Callable[[Any], bool]) -> bool:
    """Merge the equal operations of TorchScript's graph by ``merge``, as in a graph without marks.

    A mark is a call of Python, so for all torch knows, the result might share memory with each input of the model. If
    the result of a mark is the result of the model, torch merges no casts and views of the inputs: for each of two
    attention masks a copy. Meanwhile sums that no other sums equal stand for the mark. The operations between two marks
    get the number of the region as an attribute: torch would share a node between the bodies of two functions.
    """
    marks = [node for node in graph.nodes() if _class(node)]
    _number_inside(graph)
    sums = [_put_sums(graph, mark, _UNIQUE + number) for number, mark in enumerate(marks)]
    try:
        return merge(graph)
    finally:
        for mark, chain in zip(marks, sums, strict=True):
            _take_sums(mark, chain)
        for node in graph.nodes():
            if node.hasAttribute(_INSIDE):
                node.removeAttribute(_INSIDE)


def _class(node: Any) -> str:
    """Return the name of the class of a mark; empty for any other node."""
    return node.pyname() if node.kind() == "prim::PythonOp" and node.pyname() in CLASSES else ""


def _number_inside(graph: Any) -> None:
    """Give each operation between two marks the number of the innermost region."""
    begin, end, _ = CLASSES
    ended = {node.scalar_args()[0] for node in graph.nodes() if _class(node) == end}
    regions: list[int] = []
    for node in graph.nodes():
        if (kind := _class(node)) in (begin, end):
            number = node.scalar_args()[0]
            if kind == begin and number in ended:
                regions.append(number)
            elif number in regions:
                regions.remove(number)
        elif regions and node.kind() != "prim::Constant":
            node.i_(_INSIDE, regions[-1])


def _put_sums(graph: Any, mark: Any, number: int) -> list[Any]:
    """Let the users of each result of a mark read a sum of all inputs; return a sum for each input and result."""
    with graph.insert_point_guard(mark):
        unique = graph.insertConstant(number)
    chain: list[Any] = []
    for value in [*mark.inputs(), *mark.outputs()]:
        is_result = len(chain) >= mark.inputsSize()
        terms = [chain[-1].output(), unique if is_result else value, unique] if chain else [value, unique, unique]
        chain.append(graph.create("aten::add", terms, 1))
        chain[-1].insertBefore(mark)
        if is_result:
            value.replaceAllUsesWith(chain[-1].output())
    mark.removeAllInputs()
    return chain


def _take_sums(mark: Any, chain: Sequence[Any]) -> None:
    count = len(chain) - mark.outputsSize()
    unique = chain[0].inputsAt(1).node()
    for index, node in enumerate(chain[:count]):
        mark.addInput(node.inputsAt(1 if index else 0))
    for node, result in zip(chain[count:], mark.outputs(), strict=True):
        node.output().replaceAllUsesWith(result)
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
