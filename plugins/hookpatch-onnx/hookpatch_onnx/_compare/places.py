"""Group lost and gained nodes into places, such as ``3 MatMul → MatMul, Split``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from hookpatch_onnx._model.graph import Graph
from hookpatch_onnx._model.metadata import MADE_BY

_Only: TypeAlias = tuple[int, int]  # a node without a match: 0 or 1 for the graph, and the number in that graph


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Neighbouring nodes without a match: lost nodes of the first graph, gained nodes of the second.

    Attributes:
        lost: the numbers of the lost nodes, in the order of the first graph.
        gained: the numbers of the gained nodes, in the order of the second graph.
        pattern: the operators in words: of the lost nodes, of the gained nodes.
        by: the plugins that made one of the nodes, by the node's metadata.
    """

    lost: tuple[int, ...]
    gained: tuple[int, ...]
    pattern: tuple[str, str]
    by: tuple[str, ...] = ()


def places_of(before: Graph, after: Graph, matches: Mapping[int, int]) -> tuple[Place, ...]:
    """Return the places, in the first graph's order.

    Connected nodes are one place; so are nodes of both graphs that have the same users, or use the same values.

    Args:
        before, after: the graphs.
        matches: which node of the first is which of the second.
    """
    sides = (
        _Side(before, {match: match for match in matches}, 0),
        _Side(after, {matches[match]: match for match in matches}, 1),
    )
    joined = _Joined()
    for side in sides:
        for producer, user in side.within():
            joined.join(producer, user)
    mixed: set[_Only] = set()
    for direction in ("down", "up"):  # up only where down joined nothing: a value may have many users
        meeting: dict[Hashable, tuple[list[_Only], list[_Only]]] = defaultdict(lambda: ([], []))
        for graph_index, side in enumerate(sides):
            for point, node in side.ends(direction):
                if joined.root(node) not in mixed:
                    meeting[point][graph_index].append(node)
        met = [(*ours, *theirs) for ours, theirs in meeting.values() if ours and theirs]
        for nodes in met:
            for node in nodes:
                joined.join(nodes[0], node)
        mixed = {joined.root(nodes[0]) for nodes in met}
    groups: dict[_Only, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for graph_index, side in enumerate(sides):
        for index in side.only:
            groups[joined.root((graph_index, index))][graph_index].append(index)
    return tuple(_place(sides, tuple(lost), tuple(gained)) for lost, gained in groups.values())


def _place(sides: tuple[_Side, _Side], lost: tuple[int, ...], gained: tuple[int, ...]) -> Place:
    nothing = [
        "a constant" if sides[graph_index].ends_in_constant(only, sides[1 - graph_index]) else "nothing"
        for graph_index, only in ((1, gained), (0, lost))
    ]
    words = words_of(sides[0].graph, lost) or nothing[0], words_of(sides[1].graph, gained) or nothing[1]
    nodes = [sides[0].graph.nodes[index] for index in lost] + [sides[1].graph.nodes[index] for index in gained]
    return Place(lost, gained, words, tuple(sorted({node.notes[MADE_BY] for node in nodes if MADE_BY in node.notes})))


def words_of(graph: Graph, nodes: Iterable[int]) -> str:
    """Return the operators of nodes in words: ``3 MatMul, Split``; empty for no nodes."""
    counts = Counter(graph.nodes[index].op for index in nodes)
    return ", ".join(op if count == 1 else f"{count} {op}" for op, count in counts.items())


@final
class _Side:
    """The nodes of one graph without a match, and their neighbours with a match."""

    def __init__(self, graph: Graph, common: Mapping[int, int], graph_index: int) -> None:
        self.graph: Final = graph
        self._common: Final = common  # the number in the first graph, of each matched node
        self._at: Final = graph_index
        self.only: Final = [node.index for node in graph.nodes if node.index not in common]

    def within(self) -> Iterator[tuple[_Only, _Only]]:
        """Yield the pairs of nodes without a match of which one uses the other."""
        for index in self.only:
            for name in self.graph.nodes[index].outputs:
                for user, _ in self.graph.consumers.get(name, ()) if name else ():
                    if user not in self._common:
                        yield (self._at, index), (self._at, user)

    def ends(self, direction: str) -> Iterator[tuple[Hashable, _Only]]:
        """Yield the matched neighbours of nodes without a match: users (``down``) or used values (``up``)."""
        for index in self.only:
            node = self.graph.nodes[index]
            if direction == "down":
                for name in filter(None, node.outputs):
                    for user, slot in self.graph.consumers.get(name, ()):
                        if user in self._common:
                            commutes = self.graph.nodes[user].commutes
                            yield (self._common[user], 0 if commutes else slot), (self._at, index)
                    if name in self.graph.outputs:
                        yield ("output", self.graph.outputs.index(name)), (self._at, index)
                continue
            for name in filter(None, node.inputs):
                value = self.graph.values[name]
                if value.producer is None and value.kind != "constant":
                    yield ("value", name), (self._at, index)
                elif value.producer is not None and value.producer in self._common:
                    yield (self._common[value.producer], value.slot), (self._at, index)

    def ends_in_constant(self, only: Iterable[int], opposite: _Side) -> bool:
        """Return True if a matched user of these nodes takes a constant instead in the other graph."""
        users = {
            user
            for index in only
            for name in self.graph.nodes[index].outputs
            for user, _ in self.graph.consumers.get(name, ())
        }
        by_common = {common: index for index, common in opposite._common.items()}
        for user in users & self._common.keys():
            match = opposite.graph.nodes[by_common[self._common[user]]]
            if len(list(opposite.graph.constants_of(match))) > len(
                list(self.graph.constants_of(self.graph.nodes[user]))
            ):
                return True
        return False


@final
class _Joined:
    """Nodes of both graphs in groups (union-find)."""

    def __init__(self) -> None:
        self._up: Final[dict[_Only, _Only]] = {}

    def root(self, node: _Only) -> _Only:
        while (up := self._up.get(node, node)) != node:
            self._up[node] = self._up.get(up, up)
            node = up
        return node

    def join(self, first: _Only, second: _Only) -> None:
        self._up[self.root(first)] = self.root(second)
