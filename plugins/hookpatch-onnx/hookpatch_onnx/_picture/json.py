"""A comparison as JSON."""

from __future__ import annotations

import math
from typing import Any

from hookpatch_onnx._compare.compare import Comparison, GraphComparison
from hookpatch_onnx._measure.distance import Distance
from hookpatch_onnx._measure.measured import Measure, Measured
from hookpatch_onnx._model.graph import Node


def as_json(comparison: Comparison, measured: Measured | None = None) -> dict[str, Any]:
    """Return a whole comparison as JSON can hold it, with the distances if there are any."""
    return {
        "before": comparison.before,
        "after": comparison.after,
        "same": comparison.is_empty,
        "patches": {"before": list(comparison.patches[0]), "after": list(comparison.patches[1])},
        "ops": {op: {"before": before, "after": after} for op, (before, after) in comparison.ops().items()},
        "model": list(comparison.model),
        "graphs": [_graph(graph, None if index else measured) for index, graph in enumerate(comparison.graphs)],
        **({} if measured is None else _measured(measured)),
    }


def _measured(measured: Measured) -> dict[str, Any]:
    weights = {
        "equal": measured.weights.equal,
        "changes": [
            {
                "kind": change.kind,
                "before": change.before,
                "after": change.after,
                "type": change.type,
                "distance": None if change.distance is None else _distance(change.distance),
            }
            for change in measured.weights.changes
        ],
    }
    if measured.seed is None:
        return {"weights": weights}
    outputs = {name: _measure(measure) for name, measure in (measured.outputs or {}).items()}
    run = {"seed": measured.seed, "inputs": dict(measured.inputs or {}), "outputs": outputs}
    return {"weights": weights, "run": run}


def _measure(measure: Measure) -> dict[str, Any]:
    behind, incoming = (
        None if distance is None else _distance(distance) for distance in (measure.behind, measure.incoming)
    )
    return {"effect": measure.effect, "behind": behind, "incoming": incoming, "at": measure.at and list(measure.at)}


def _distance(distance: Distance) -> dict[str, Any]:
    """Return a distance; an infinite one is a word, since JSON has no infinity."""
    numbers = {"largest": distance.largest, "relative": distance.relative}
    values = {name: number if math.isfinite(number) else "infinite" for name, number in numbers.items()}
    return {"verdict": distance.verdict, **values}


def _graph(graph: GraphComparison, measured: Measured | None) -> dict[str, Any]:
    places = measured.places if measured else ()
    changed = (measured and measured.changed) or {}
    return {
        "title": graph.title,
        "nodes": {
            "before": len(graph.before.nodes),
            "after": len(graph.after.nodes),
            "same": len(graph.matches) - len(graph.changed),
        },
        "renamed": graph.renamed,
        "changed": [
            {
                **_node(graph.before.nodes[index]),
                "changes": list(lines),
                **({"measure": _measure(changed[index])} if changed else {}),
            }
            for index, lines in graph.changed.items()
        ],
        "places": [
            {
                "lost": [_node(node) for node in graph.nodes_of(place)[0]],
                "gained": [_node(node) for node in graph.nodes_of(place)[1]],
                "by": list(place.by),
                **({"measure": _measure(places[index])} if places else {}),
            }
            for index, place in enumerate(graph.places)
        ],
        "ends": list(graph.ends),
        "initializers": list(graph.initializers),
    }


def _node(node: Node) -> dict[str, str]:
    return {"op": node.op, "name": node.name, "output": next(iter(node.outputs), "")}
