"""A comparison as JSON."""

from __future__ import annotations

from typing import Any

from hookpatch_onnx._compare.compare import Comparison, GraphComparison
from hookpatch_onnx._model.graph import Node


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return a whole comparison as JSON can hold it."""
    return {
        "before": comparison.before,
        "after": comparison.after,
        "same": comparison.is_empty,
        "patches": {"before": list(comparison.patches[0]), "after": list(comparison.patches[1])},
        "ops": {op: {"before": before, "after": after} for op, (before, after) in comparison.ops().items()},
        "model": list(comparison.model),
        "graphs": [_graph(graph) for graph in comparison.graphs],
    }


def _graph(graph: GraphComparison) -> dict[str, Any]:
    return {
        "title": graph.title,
        "nodes": {
            "before": len(graph.before.nodes),
            "after": len(graph.after.nodes),
            "same": len(graph.matches) - len(graph.changed),
        },
        "renamed": graph.renamed,
        "changed": [
            {**_node(graph.before.nodes[index]), "changes": list(lines)} for index, lines in graph.changed.items()
        ],
        "places": [
            {
                "lost": [_node(node) for node in graph.nodes_of(place)[0]],
                "gained": [_node(node) for node in graph.nodes_of(place)[1]],
                "by": list(place.by),
            }
            for place in graph.places
        ],
        "ends": list(graph.ends),
        "initializers": list(graph.initializers),
    }


def _node(node: Node) -> dict[str, str]:
    return {"op": node.op, "name": node.name, "output": next(iter(node.outputs), "")}
