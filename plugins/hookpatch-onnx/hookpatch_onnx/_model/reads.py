"""Find the graphs of a model; find and replace the values that nodes read, directly and in their subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import onnx_ir as ir

GraphLike: TypeAlias = ir.Graph | ir.Function


def read(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield the values that nodes read, including outer values that their subgraphs read."""
    for node in nodes:
        yield from (value for value in node.inputs if value is not None)
        for graph in subgraphs(node):
            own = {
                *graph.inputs,
                *graph.initializers.values(),
                *(value for inner_node in graph for value in inner_node.outputs),
            }
            yield from (value for value in (*read(graph), *graph.outputs) if value not in own)


def read_instead(node: ir.Node, old: ir.Value, new: ir.Value) -> None:
    """Replace a value by another in the inputs of a node and of its subgraphs."""
    for index, value in enumerate(node.inputs):
        if value is old:
            node.replace_input_with(index, new)
    for graph in subgraphs(node):
        for inner_node in graph:
            read_instead(inner_node, old, new)
        for index, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[index] = new


def graphs(graph: GraphLike) -> Iterator[GraphLike]:
    """Yield the graphs inside the nodes of a graph, innermost first, and then the graph."""
    for node in graph:
        for inner in subgraphs(node):
            yield from graphs(inner)
    yield graph


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in a node's attributes."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def users_in(graph: GraphLike) -> dict[ir.Value, set[ir.Node]]:
    """Return the nodes of a graph that use each value, directly or in a subgraph."""
    users: dict[ir.Value, set[ir.Node]] = {}
    for node in graph:
        for value in read([node]):
            users.setdefault(value, set()).add(node)
    return users
