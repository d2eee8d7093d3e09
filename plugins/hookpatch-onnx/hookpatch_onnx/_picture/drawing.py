"""Join two compared graphs into one drawing: a matched node is drawn once, unchanged nodes are folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

from hookpatch_onnx._compare.compare import GraphComparison
from hookpatch_onnx._compare.differences import same_type
from hookpatch_onnx._measure.measured import Measure, Measured
from hookpatch_onnx._model.graph import Graph, Node
from hookpatch_onnx._picture.folds import folds_of

_LEFT_OUT: Final = frozenset({"pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes"})


def drawing_of(comparison: GraphComparison, measured: Measured | None = None) -> dict[str, Any]:
    """Return the drawing of two graphs for the page, as JSON can hold it.

    ``nodes``: of each node ``id``, ``op``, ``state`` (same, changed, lost, gained), ``kind`` (node, input, output);
    ``before`` and ``after``; ``differences``; ``place`` and ``fold``, each a number or null. ``before`` is null for a
    gained node; ``after`` for a lost node, and if equal to ``before``. ``edges``: the numbers of two nodes, the type of
    the value, and two flags: present before, present after. ``places``: patterns and nodes. If the models were run, a
    changed node and a place have ``measure``: the effect on the numbers, and the distance in words.
    """
    union = _Union(comparison)
    folds = folds_of(union.nodes, union.edges)
    nodes = [{**node, "fold": folds.get(index)} for index, node in enumerate(union.nodes)]
    places = []
    for number, place in enumerate(comparison.places):
        members = [union.of[0][index] for index in place.lost] + [union.of[1][index] for index in place.gained]
        lost, gained = place.pattern
        label = comparison.label_of(place)
        entry: dict[str, Any] = {"lost": lost, "gained": gained, "by": place.by, "label": label, "nodes": members}
        if measured is not None and measured.places:
            entry["measure"] = _measure(measured.places[number])
        places.append(entry)
        for member in members:
            nodes[member]["place"] = number
    for number, measure in ((measured and measured.changed) or {}).items():
        nodes[union.of[0][number]]["measure"] = _measure(measure)
    return {
        "title": comparison.title,
        "counts": {
            "before": len(comparison.before.nodes),
            "after": len(comparison.after.nodes),
            "same": len(comparison.matches) - len(comparison.changed),
            "changed": len(comparison.changed),
            "lost": len(comparison.lost),
            "gained": len(comparison.gained),
            "renamed": comparison.renamed,
        },
        "nodes": nodes,
        "edges": union.edges,
        "places": places,
        "ends": list(comparison.ends),
        "initializers": [] if measured else list(comparison.initializers),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {"effect": measure.effect, "words": measure.words, "at": measure.at}


@final
class _Union:
    """The union of two graphs. A node's number is the index in ``nodes``.

    Attributes:
        nodes: the nodes, and one for each input and output of the graphs, in topological order.
        edges: from, to, type of the value, present before, present after.
        of: for each of the two graphs, the number in the union by the number in the graph.
    """

    def __init__(self, comparison: GraphComparison) -> None:
        self._comparison: Final = comparison
        self._sides: Final = (comparison.before, comparison.after)
        self.nodes: Final[list[dict[str, Any]]] = []
        self.of: Final[tuple[dict[int, int], dict[int, int]]] = ({}, {})
        self._inputs: Final[tuple[dict[str, int], dict[str, int]]] = ({}, {})
        self._outputs: Final[tuple[dict[str, int], dict[str, int]]] = ({}, {})
        self._add_ends("input", self._inputs)
        for number, side in _in_order(comparison):
            self._add_node(number, side)
        self._add_ends("output", self._outputs)
        self.edges: Final = self._edges()

    def _add(self, **details: Any) -> int:
        self.nodes.append({"id": len(self.nodes), "place": None, **details})
        return len(self.nodes) - 1

    def _add_node(self, number: int, side: int) -> None:
        comparison = self._comparison
        node = self._sides[side].nodes[number]
        details = _details(self._sides[side], node)
        if side:
            self.of[1][number] = self._add(
                op=node.op, state="gained", kind="node", before=None, after=details, differences=[]
            )
            return
        match = comparison.matches.get(number)
        theirs = None if match is None else _details(comparison.after, comparison.after.nodes[match])
        state = "lost" if match is None else "changed" if number in comparison.changed else "same"
        self.of[0][number] = self._add(
            op=node.op,
            state=state,
            kind="node",
            before=details,
            after=None if theirs == details else theirs,
            differences=list(comparison.changed.get(number, ())),
        )
        if match is not None:
            self.of[1][match] = self.of[0][number]

    def _add_ends(self, kind: str, numbers: tuple[dict[str, int], dict[str, int]]) -> None:
        """Add the inputs or outputs of the graphs, paired by name, the rest by position."""
        ours, theirs = ((graph.inputs if kind == "input" else graph.outputs) for graph in self._sides)
        lost, gained = [name for name in ours if name not in theirs], [name for name in theirs if name not in ours]
        pairs: list[tuple[str | None, str | None]] = [(name, name) for name in ours if name in theirs]
        pairs += zip(lost, gained, strict=False)
        pairs += [(name, None) for name in lost[len(gained) :]] + [(None, name) for name in gained[len(lost) :]]
        for mine, its in pairs:
            values = [
                None if name is None else graph.values[name]
                for graph, name in zip(self._sides, (mine, its), strict=True)
            ]
            before, after = ({"name": value.name, "type": value.type} if value else None for value in values)
            differs = values[0] is not None and values[1] is not None and not same_type(values[0], values[1])
            state = "gained" if mine is None else "lost" if its is None else "changed" if differs else "same"
            types = [f"{values[0].type} → {values[1].type}"] if differs and values[0] and values[1] else []
            index = self._add(
                op=mine or its,
                state=state,
                kind=kind,
                before=before,
                after=None if after == before else after,
                differences=types,
            )
            for name, numbered in zip((mine, its), numbers, strict=True):
                if name is not None:
                    numbered[name] = index

    def _edges(self) -> list[list[Any]]:
        edges: dict[tuple[int, int], list[Any]] = {}
        for side, graph in enumerate(self._sides):
            for start, end, kind in self._edges_of(side, graph):
                edge = edges.setdefault((start, end), [start, end, kind, False, False])
                edge[3 + side] = True
        return list(edges.values())

    def _edges_of(self, side: int, graph: Graph) -> Iterator[tuple[int, int, str]]:
        def source(name: str) -> int | None:
            value = graph.values[name]
            return self._inputs[side].get(name) if value.producer is None else self.of[side][value.producer]

        for node in graph.nodes:
            for name in filter(None, node.inputs):
                if (start := source(name)) is not None:
                    yield start, self.of[side][node.index], graph.values[name].type
        for name in graph.outputs:
            if (start := source(name)) is not None:
                yield start, self._outputs[side][name], graph.values[name].type


def _in_order(comparison: GraphComparison) -> Iterator[tuple[int, int]]:
    """Yield the nodes of the union in topological order: the number, and 0 or 1 for the graph."""
    counterparts = {match: index for index, match in comparison.matches.items()}
    visited: set[tuple[int, int]] = set()

    def needs(number: int, side: int) -> Iterator[tuple[int, int]]:
        graph = (comparison.before, comparison.after)[side]
        for name in filter(None, graph.nodes[number].inputs):
            producer = graph.values[name].producer
            if producer is not None:
                yield (counterparts[producer], 0) if side and producer in counterparts else (producer, side)

    for end in [(node.index, 0) for node in comparison.before.nodes] + [(node.index, 1) for node in comparison.gained]:
        stack = [(end, False)]
        while stack:
            (number, side), is_done = stack.pop()
            if is_done:
                yield number, side
            elif (number, side) not in visited:
                visited.add((number, side))
                stack.append(((number, side), True))
                stack += [(needed, False) for needed in needs(number, side) if needed not in visited]
                if not side and number in comparison.matches:
                    stack += [
                        (needed, False) for needed in needs(comparison.matches[number], 1) if needed not in visited
                    ]


def _details(graph: Graph, node: Node) -> dict[str, Any]:
    inputs = [
        {"name": name, "what": graph.values[name].words, "kind": graph.values[name].kind}
        for name in node.inputs
        if name
    ]
    return {
        "name": node.label,
        "node": node.name,
        "attributes": node.attributes | dict.fromkeys(node.graphs, "a graph of its own"),
        "inputs": inputs,
        "outputs": [{"name": name, "type": graph.values[name].type} for name in node.outputs if name],
        "notes": {key: value for key, value in node.notes.items() if key not in _LEFT_OUT},
    }
