"""Label nodes by structure, without names: nodes of equal structure have equal labels.

The method is that of Weisfeiler and Lehman (1968): a label is made of the node's own label and the labels of the
node's neighbours. Labels of two graphs can be compared if equal leaves stand for corresponding inputs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, final

from hookpatch_onnx._model.graph import Graph, Node

RADIUS: Final = 3  # edges: how far the labels in ``Labels.around`` reach


@final
class Labels:
    """The labels of one graph's nodes. As long-lived as the comparison.

    Attributes:
        own: of each node alone: operator, attributes and constants.
        upstream: of each node with all nodes that compute its inputs.
        downstream: of each node with all nodes that use its outputs.
        around: of each node with the nodes at most 0, 1, 2, 3 edges away.
    """

    __slots__ = ("_graph", "_leaves", "around", "downstream", "order", "own", "upstream")

    def __init__(self, graph: Graph, leaves: Mapping[str, Hashable]) -> None:
        """Make the labels.

        Args:
            graph: the graph.
            leaves: a key for each input and output of the graph, and for each value of the outer graph.
        """
        self._graph: Final = graph
        self._leaves: Final = leaves
        self.order: Final = topological(graph)
        self.own: Final = [self._own(node) for node in graph.nodes]
        self.upstream: Final = [0] * len(graph.nodes)
        self.downstream: Final = [0] * len(graph.nodes)
        for index in self.order:
            self.upstream[index] = self._from_inputs(index, self.upstream)
        for index in reversed(self.order):
            self.downstream[index] = self._from_outputs(index, self.downstream)
        self.around: Final = [self.own]
        for _ in range(RADIUS):
            last = self.around[-1]
            self.around.append(
                [hash((self._from_inputs(index, last), self._from_outputs(index, last))) for index in range(len(last))]
            )

    def same_keys(self, ours: Iterable[str], theirs: Iterable[str], their_labels: Labels) -> Iterator[tuple[str, str]]:
        """Yield the pairs of inputs, or of outputs, that have the same key in both graphs."""
        names = {their_labels._leaves.get(name): name for name in theirs}
        return ((name, names[leaf]) for name in ours if (leaf := self._leaves.get(name)) in names)

    def _own(self, node: Node) -> int:
        constants = [
            (value.dtype, value.shape, value.data)
            if name and (value := self._graph.values[name]).kind == "constant"
            else ()
            for name in node.inputs
        ]
        inputs = sorted(constants, key=repr) if node.commutes else constants
        return hash((node.op, tuple(sorted(node.settings.items())), tuple(node.graphs), tuple(inputs)))

    def _from_inputs(self, index: int, labels: list[int]) -> int:
        node = self._graph.nodes[index]
        sources: list[int] = []
        for name in node.inputs:
            value = self._graph.values[name] if name else None
            if value is None or value.kind == "constant":
                sources.append(0)
            elif value.producer is None:
                sources.append(hash(self._leaves.get(name, name)))
            else:
                sources.append(hash((labels[value.producer], value.slot)))
        return hash((self.own[index], tuple(sorted(sources) if node.commutes else sources)))

    def _from_outputs(self, index: int, labels: list[int]) -> int:
        node, graph = self._graph.nodes[index], self._graph
        uses: list[tuple[object, ...]] = []
        for name in node.outputs:
            users = graph.consumers.get(name, ()) if name else ()
            slots = sorted((labels[user], 0 if graph.nodes[user].commutes else slot) for user, slot in users)
            uses.append((*slots, self._leaves.get(name) if name in graph.outputs else None))
        return hash((self.own[index], tuple(uses)))


def topological(graph: Graph) -> list[int]:
    """Return the numbers of the nodes in topological order, independent of names.

    The walk starts at the outputs and follows the inputs in order. A graph with a circle, which ONNX forbids, gets all
    its nodes nevertheless.
    """
    order: list[int] = []
    visited = [False] * len(graph.nodes)
    used = {name for node in graph.nodes for name in node.inputs}
    ends = [graph.values[name].producer for name in graph.outputs]
    ends += [node.index for node in graph.nodes if not any(name in used for name in node.outputs)]  # unused
    for end in [*ends, *range(len(graph.nodes))]:
        stack = [] if end is None or visited[end] else [(end, False)]
        while stack:
            index, is_done = stack.pop()
            if is_done:
                order.append(index)
            elif not visited[index]:
                visited[index] = True
                stack.append((index, True))
                names = [name for name in graph.nodes[index].inputs if name]
                producers = [graph.values[name].producer for name in reversed(names)]
                stack += [(producer, False) for producer in producers if producer is not None and not visited[producer]]
    return order
