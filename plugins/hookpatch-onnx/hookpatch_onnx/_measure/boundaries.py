"""Find the values that both graphs have around a change: before the change, and behind the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from hookpatch_onnx._compare.compare import GraphComparison
from hookpatch_onnx._compare.places import Place
from hookpatch_onnx._model.graph import Graph, Node

Pair: TypeAlias = tuple[str, str]  # the name of a value in the first graph, and in the second

_DEPTH: Final = 3  # nodes in a row behind a change


@final
@dataclass(frozen=True, slots=True)
class Boundary:
    """The values around a change, which correspond to each other.

    Attributes:
        before: the values that go into the change, computed by matched nodes.
        behind: the values that come out, the nearest first: the pairs behind no node, one node, two nodes and so on.
    """

    before: tuple[Pair, ...]
    behind: tuple[tuple[Pair, ...], ...]


@final
class Boundaries:
    """Finds the values around the changes of two graphs."""

    def __init__(self, comparison: GraphComparison) -> None:
        self._graphs: Final = comparison.before, comparison.after
        self._match_of: Final = comparison.matches, {match: index for index, match in comparison.matches.items()}
        self._matches: Final = comparison.matches

    def of_node(self, index: int) -> Boundary:
        """Return the values around a changed node."""
        ours, theirs = self._graphs[0].nodes[index], self._graphs[1].nodes[self._matches[index]]
        outputs = tuple(pair for pair in zip(ours.outputs, theirs.outputs, strict=False) if all(pair))
        return Boundary(tuple(dict.fromkeys(self._coming_in([ours], 0))), (outputs, *self._behind([index])))

    def of_place(self, place: Place) -> Boundary:
        """Return the values around lost and gained nodes."""
        before: list[Pair] = []
        nearest: list[Pair] = []
        users: list[int] = []
        for side, numbers in ((0, place.lost), (1, place.gained)):
            nodes = [self._graphs[side].nodes[number] for number in numbers]
            before += self._coming_in(nodes, side)
            for name in (name for node in nodes for name in node.outputs if name):
                nearest += self._ends(name, side)
                for user, slot in self._graphs[side].consumers.get(name, ()):
                    if user in self._match_of[side]:
                        users.append(self._match_of[1][user] if side else user)
                        nearest += self._fed(users[-1], slot)
        return Boundary(tuple(dict.fromkeys(before)), (tuple(dict.fromkeys(nearest)), *self._behind(users)))

    def _coming_in(self, nodes: Iterable[Node], side: int) -> Iterator[Pair]:
        """Yield the pairs of values that matched nodes compute and these nodes use."""
        graph, opposite = self._graphs[side], self._graphs[1 - side]
        for name in (name for node in nodes for name in node.inputs if name):
            value = graph.values[name]
            if value.producer is None or value.producer not in self._match_of[side]:
                continue
            outputs = opposite.nodes[self._match_of[side][value.producer]].outputs
            if value.slot < len(outputs) and outputs[value.slot]:
                yield (outputs[value.slot], name) if side else (name, outputs[value.slot])

    def _ends(self, name: str, side: int) -> Iterator[Pair]:
        """Yield the pair of outputs of the two graphs at the position of a value; nothing if the value is no output."""
        ours, theirs = (graph.outputs for graph in self._graphs)
        mine = self._graphs[side].outputs
        if name in mine and len(ours) == len(theirs):
            yield ours[mine.index(name)], theirs[mine.index(name)]

    def _fed(self, user: int, slot: int) -> Iterator[Pair]:
        """Yield the pair of values that a matched node gets at one input."""
        ours, theirs = self._graphs[0].nodes[user], self._graphs[1].nodes[self._matches[user]]
        if not ours.commutes and slot < min(len(ours.inputs), len(theirs.inputs)):
            pair = ours.inputs[slot], theirs.inputs[slot]
            if all(pair):
                yield pair

    def _behind(self, users: Iterable[int]) -> Iterator[tuple[Pair, ...]]:
        """Yield the outputs of matched nodes behind a change, one node further each time."""
        frontier = list(dict.fromkeys(users))
        visited: set[int] = set()
        for _ in range(_DEPTH):
            visited.update(frontier)
            pairs: dict[Pair, None] = {}
            for index in frontier:
                outputs = self._graphs[0].nodes[index].outputs, self._graphs[1].nodes[self._matches[index]].outputs
                pairs.update(dict.fromkeys(pair for pair in zip(*outputs, strict=False) if all(pair)))
            yield tuple(pairs)
            frontier = list(dict.fromkeys(self._users(self._graphs[0], frontier, visited)))

    def _users(self, graph: Graph, nodes: Iterable[int], visited: set[int]) -> Iterator[int]:
        for name in (name for index in nodes for name in graph.nodes[index].outputs if name):
            for user, _ in graph.consumers.get(name, ()):
                if user in self._matches and user not in visited:
                    yield user
