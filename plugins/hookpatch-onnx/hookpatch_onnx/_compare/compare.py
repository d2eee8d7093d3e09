"""Compare two models, graph by graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

import onnx

from hookpatch_onnx._compare.differences import NodeDifferences, leaves_of
from hookpatch_onnx._compare.interface import end_lines, initializer_lines, opset_lines
from hookpatch_onnx._compare.labels import Labels
from hookpatch_onnx._compare.match import Matching, Side
from hookpatch_onnx._compare.places import Place, places_of
from hookpatch_onnx._model.graph import Graph, Node, body_of, graph_of, opsets_of
from hookpatch_onnx._model.metadata import PATCHES
from hookpatch_onnx.errors import NothingInCommonError

_ENOUGH: Final = (
    0.05  # of the smaller graph's nodes: below that, and with other inputs or outputs, nothing is in common
)


@final
@dataclass(frozen=True, slots=True)
class GraphComparison:
    """Two graphs, node by node.

    Attributes:
        title: empty for the graphs of the models, else names a node's graph or a local function.
        before, after: the graphs.
        matches: the number in ``after`` of each matched node, by the number in ``before``.
        changed: the differences of a matched node, by the number in ``before``: a line each, names left out.
        places: the lost and gained nodes, neighbours as one place.
        ends: the differences of the graph's inputs and outputs, a line each.
        initializers: the differences of the initializers, a line each.
    """

    title: str
    before: Graph
    after: Graph
    matches: dict[int, int]
    changed: dict[int, tuple[str, ...]]
    places: tuple[Place, ...]
    ends: tuple[str, ...]
    initializers: tuple[str, ...]

    @property
    def lost(self) -> list[Node]:
        """The nodes of ``before`` without a match."""
        return [node for node in self.before.nodes if node.index not in self.matches]

    @property
    def gained(self) -> list[Node]:
        """The nodes of ``after`` without a match."""
        matched = set(self.matches.values())
        return [node for node in self.after.nodes if node.index not in matched]

    def nodes_of(self, place: Place) -> tuple[list[Node], list[Node]]:
        """Return the lost and the gained nodes of a place."""
        return [self.before.nodes[index] for index in place.lost], [self.after.nodes[index] for index in place.gained]

    def label_of(self, place: Place) -> str:
        """Return a name for a place: the name of one node, not a name made up by a simplifier if possible."""
        lost, gained = self.nodes_of(place)
        labels = [node.label for node in (*reversed(lost), *reversed(gained))]
        return next((label for label in labels if not label.startswith("_")), labels[0])

    @property
    def renamed(self) -> int:
        """How many matched nodes have other output names."""
        pairs = self.matches.items()
        return sum(self.before.nodes[index].outputs != self.after.nodes[match].outputs for index, match in pairs)

    @property
    def is_empty(self) -> bool:
        """True if nothing differs but names."""
        return not (self.changed or self.places or self.ends or self.initializers)


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, graph by graph.

    Attributes:
        before, after: the names of the models.
        graphs: the graphs of the models, then graphs inside matched nodes, then local functions of both models.
        model: the differences of opsets and functions, a line each.
        patches: the plugins whose patches were called before each model was recorded, as far as known.
    """

    before: str
    after: str
    graphs: tuple[GraphComparison, ...]
    model: tuple[str, ...]
    patches: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))

    @property
    def is_empty(self) -> bool:
        """True if nothing differs but names."""
        return not self.model and all(graph.is_empty for graph in self.graphs)

    def ops(self) -> dict[str, tuple[int, int]]:
        """Return how often each operator occurs, before and after; operators without a difference are left out.

        ``Constant`` is left out, too: a constant is no node here.
        """
        before, after = (
            sum((_ops(getattr(graph, side)) for graph in self.graphs), Counter[str]()) for side in ("before", "after")
        )
        ops = sorted(before.keys() | after.keys(), key=lambda op: (-abs(after[op] - before[op]), op))
        return {op: (before[op], after[op]) for op in ops if before[op] != after[op]}


def compare(before: onnx.ModelProto, after: onnx.ModelProto, names: tuple[str, str]) -> Comparison:
    """Return the comparison of two models.

    Args:
        before, after: the models; weights are not compared.
        names: the names of the models.

    Raises:
        NothingInCommonError: hardly a node of one model matches a node of the other, and inputs or outputs differ, too.
    """
    first = _graphs("", graph_of(before.graph, opsets_of(before)), graph_of(after.graph, opsets_of(after)))
    main = first[0]
    smaller = min(len(main.before.nodes), len(main.after.nodes))
    if (smaller == 0 or len(main.matches) < _ENOUGH * smaller) and main.ends:
        ours, theirs = len(main.before.nodes), len(main.after.nodes)
        overlap = f"{len(main.matches) or 'none'} of the {ours} nodes of the one is among the {theirs} of the other"
        raise NothingInCommonError(*names, f"{overlap}, and {main.ends[0]}")
    functions, lines = _functions(before, after)
    graphs = [*first, *functions]
    return Comparison(*names, tuple(graphs), (*opset_lines(before, after), *lines), (_patches(before), _patches(after)))


def _graphs(
    title: str, before: Graph, after: Graph, outer: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> list[GraphComparison]:
    """Return the comparison of two graphs, and of the graphs inside matched nodes."""
    sides = [
        Side(graph, Labels(graph, leaves))
        for graph, leaves in zip((before, after), leaves_of(before, after, outer), strict=True)
    ]
    Matching(*sides).match_nodes()
    matches = dict(sorted(sides[0].matches.items()))
    differences = NodeDifferences(before, after, matches, outer)
    changed = {
        index: lines for index, match in matches.items() if (lines := tuple(differences.differences(index, match)))
    }
    inner: list[GraphComparison] = []
    for index, match in matches.items():
        ours, theirs = before.nodes[index], after.nodes[match]
        for name in (name for name in ours.graphs if name in theirs.graphs):
            within = f"{ours.op} '{ours.label}' {name}"
            names = differences.names()
            inner += _graphs(
                f"{title} / {within}" if title else within,
                graph_of(ours.graphs[name], before.opsets),
                graph_of(theirs.graphs[name], after.opsets),
                names,
            )
    comparison = GraphComparison(
        title=title,
        before=before,
        after=after,
        matches=matches,
        changed=changed,
        places=places_of(before, after, matches),
        ends=(
            *end_lines("input", before, after, before.inputs, after.inputs),
            *end_lines("output", before, after, before.outputs, after.outputs),
        ),
        initializers=tuple(initializer_lines(before, after)),
    )
    return [comparison, *inner]


def _functions(before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[list[GraphComparison], list[str]]:
    """Return the comparisons of common local functions, and a line for each lost or gained function."""
    ours, theirs = (
        {
            f"{function.domain}.{function.name}{':' * bool(function.overload)}{function.overload}": function
            for function in model.functions
        }
        for model in (before, after)
    )
    comparisons = [
        graph
        for name in ours.keys() & theirs.keys()
        for graph in _graphs(f"function {name}", body_of(ours[name]), body_of(theirs[name]))
    ]
    lines = [f"function {name} is lost" for name in sorted(ours.keys() - theirs.keys())]
    lines += [f"function {name} is gained" for name in sorted(theirs.keys() - ours.keys())]
    return sorted(comparisons, key=lambda graph: graph.title), lines


def _ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def _patches(model: onnx.ModelProto) -> tuple[str, ...]:
    noted = {prop.key: prop.value for prop in model.metadata_props}
    return tuple(filter(None, noted.get(PATCHES, "").split(",")))
