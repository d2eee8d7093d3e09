"""Match the nodes of two graphs: by structure, by name, by neighbours, by order; the surest first.

1. Match nodes with equal upstream or equal downstream structure. Match nodes with weights or outputs of equal names;
   only names without a number of the exporter count. Match nodes that are alike and alone in one module.
2. Spread from each match to neighbours at the same input or output, if the neighbours are alike: first nodes with
   alike surroundings, then nodes that are alike by themselves. A residual leads past a changed part of the graph.
3. Match the rest by surroundings that occur once, then by order between matched nodes (difflib).
4. Spread to neighbours of the same operator: their attributes or shapes have changed.

Names alone are never enough: exporters number values, so one more node renames every later value.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, TypeAlias, final

from hookpatch_onnx._compare.labels import RADIUS, Labels
from hookpatch_onnx._compare.order import circles, rising
from hookpatch_onnx._model.graph import Graph, Node

Key: TypeAlias = Callable[["Side", int], Hashable]

# The reach: how many edges around a neighbour of a match must be alike, so that the neighbour is matched, too.
_OWN: Final = 0  # the neighbour alone
_OPERATOR: Final = -1  # only the operator of the neighbour
_NOTHING: Final = RADIUS + 1  # neighbours are not matched yet

_NUMBERED: Final = re.compile(r"^[^./]*$|\d+$")  # a name numbered by the exporter: val_12, linear_3


@final
class Side:
    """One of the two graphs, with labels and matches.

    Attributes:
        graph: the graph.
        labels: the structure of the graph.
        matches: by node, the number of the matched node in the other graph.
    """

    __slots__ = ("graph", "labels", "matches")

    def __init__(self, graph: Graph, labels: Labels) -> None:
        self.graph: Final = graph
        self.labels: Final = labels
        self.matches: Final[dict[int, int]] = {}

    def free(self) -> Iterator[int]:
        """Yield the nodes without a match, in topological order."""
        return (index for index in self.labels.order if index not in self.matches)

    def node(self, index: int) -> Node:
        """Return a node."""
        return self.graph.nodes[index]

    def weights(self, index: int) -> tuple[str, ...]:
        """Return the names of a node's weights, without names numbered by the exporter."""
        names = (value.name for value in self.graph.constants_of(self.node(index)) if value.data is None)
        return tuple(name for name in names if not _NUMBERED.search(name))

    def types(self, index: int) -> tuple[str, ...]:
        """Return the types of a node's outputs."""
        return tuple(self.graph.values[name].type for name in self.node(index).outputs if name)

    def consumers(self, name: str) -> list[tuple[int, int]]:
        """Return the users of a value that have no match yet, with the input index; 0 for inputs that commute."""
        users = self.graph.consumers.get(name, ()) if name else ()
        return [(user, 0 if self.node(user).commutes else slot) for user, slot in users if user not in self.matches]

    def producer(self, name: str) -> tuple[int, int] | None:
        """Return the producer of a value, and the index of the output, if the producer has no match yet."""
        value = self.graph.values[name] if name else None
        if value is None or value.producer is None or value.producer in self.matches:
            return None
        return value.producer, value.slot


@final
class Matching:
    """Matches the nodes of two graphs, step by step."""

    def __init__(self, before: Side, after: Side) -> None:
        self._before: Final = before
        self._after: Final = after
        self._fresh: Final[deque[tuple[int, int]]] = deque()
        self._reach = _NOTHING

    def match_nodes(self) -> None:
        """Match all nodes that can be matched."""
        whole: list[Key] = [
            lambda side, index: (side.labels.upstream[index], side.labels.downstream[index]),
            lambda side, index: side.labels.upstream[index],
            lambda side, index: side.labels.downstream[index],
        ]
        for key in whole:
            self._by(key, as_many=True)
        self._by(lambda side, index: (side.node(index).op, names) if (names := side.weights(index)) else None)
        self._by(
            lambda side, index: (
                None if _NUMBERED.search(name := side.node(index).label) else (side.node(index).op, name)
            )
        )
        self._by(lambda side, index: (side.labels.own[index], scope) if (scope := side.node(index).scope) else None)
        for reach in range(RADIUS, _OWN - 1, -1):
            self._spread_matches(reach)
        self._by(lambda side, index: (side.labels.around[1][index], side.node(index).label))
        for radius in range(RADIUS, 0, -1):
            self._by(lambda side, index, radius=radius: side.labels.around[radius][index])  # type: ignore[misc]  # a default binds it
        for radius in range(RADIUS, -1, -1):
            self._in_order(radius)
        self._spread_matches(_OPERATOR)
        self._untangle()

    def _by(self, key: Key, as_many: bool = False) -> None:
        """Match nodes whose key occurs once in each graph; with ``as_many`` also equally often in both.

        Nodes with the key None are left out. Several nodes with one key have one structure: names, then order, tell
        them apart.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for graph_index, side in enumerate((self._before, self._after)):
            for index in side.free():
                if (label := key(side, index)) is not None:
                    groups[label][graph_index].append(index)
        for ours, theirs in groups.values():
            if len(ours) == len(theirs) and (as_many or len(ours) == 1):
                for index, match in self._paired(ours, theirs):
                    self._match(index, match)

    def _paired(self, ours: Sequence[int], theirs: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of equally many nodes: by names of weights, by modules, by names of outputs, by order."""
        free_ours, free_theirs = list(ours), list(theirs)
        keys: tuple[Key, ...] = (
            Side.weights,
            lambda side, index: side.node(index).scope,
            lambda side, index: side.node(index).label,
        )
        for key in keys:
            mine, its = _alone(self._before, free_ours, key), _alone(self._after, free_theirs, key)
            for name in (name for name in mine if name in its):
                free_ours.remove(mine[name])
                free_theirs.remove(its[name])
                yield mine[name], its[name]
        yield from zip(free_ours, free_theirs, strict=True)

    def _match(self, index: int, match: int) -> None:
        if index not in self._before.matches and match not in self._after.matches:
            self._set(index, match)
            self._spread()

    def _set(self, index: int, match: int) -> None:
        self._before.matches[index] = match
        self._after.matches[match] = index
        self._fresh.append((index, match))

    def _spread_matches(self, reach: int) -> None:
        """Match neighbours of inputs, outputs and all matches if alike as far as ``reach``, and so on."""
        self._reach = reach
        ours, theirs = self._before.graph, self._after.graph
        for mine, its in self._before.labels.same_keys(ours.inputs, theirs.inputs, self._after.labels):
            self._match_consumers(self._before.consumers(mine), self._after.consumers(its))
        for mine, its in self._before.labels.same_keys(ours.outputs, theirs.outputs, self._after.labels):
            self._match_producers(mine, its)
        self._fresh.extend(self._before.matches.items())
        self._spread()

    def _spread(self) -> None:
        """Match neighbours of new matches, and so on."""
        while self._fresh:
            index, match = self._fresh.popleft()
            if self._reach == _NOTHING:
                continue
            ours, theirs = self._before.node(index), self._after.node(match)
            for mine, its in _aligned(ours, theirs):
                self._match_producers(mine, its)
            for mine, its in zip(ours.outputs, theirs.outputs, strict=False):
                self._match_consumers(self._before.consumers(mine), self._after.consumers(its))

    def _match_producers(self, mine: str, its: str) -> None:
        ours, theirs = self._before.producer(mine), self._after.producer(its)
        if ours and theirs and ours[1] == theirs[1] and self._alike(ours[0], theirs[0]):
            self._set(ours[0], theirs[0])

    def _match_consumers(self, ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> None:
        """Match the users of a value at the same input, if equally many; the most alike first."""
        radii = range(RADIUS, max(self._reach, _OWN) - 1, -1)
        keys: list[Key] = [lambda side, index, radius=radius: side.labels.around[radius][index] for radius in radii]  # type: ignore[misc]  # likewise
        if self._reach == _OPERATOR:
            keys += [
                lambda side, index: (side.node(index).op, side.types(index)),
                lambda side, index: side.node(index).op,
            ]
        for key in keys:
            groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
            for graph_index, (side, users) in enumerate(((self._before, ours), (self._after, theirs))):
                for user, slot in users:
                    if user not in side.matches and user not in groups[key(side, user), slot][graph_index]:
                        groups[key(side, user), slot][graph_index].append(user)
            for mine, its in groups.values():
                if len(mine) == len(its) and (len(mine) == 1 or self._reach == _OPERATOR):
                    for index, match in self._paired(mine, its):
                        self._set(index, match)

    def _alike(self, index: int, match: int) -> bool:
        if self._reach == _OPERATOR:
            return self._before.node(index).op == self._after.node(match).op
        return self._before.labels.around[self._reach][index] == self._after.labels.around[self._reach][match]

    def _in_order(self, radius: int) -> None:
        """Match nodes between matches by order; at radius 0, without neighbours, only nodes with weights."""
        ours, theirs = list(self._before.labels.order), list(self._after.labels.order)
        place = {index: position for position, index in enumerate(theirs)}
        anchors = [
            (position, place[self._before.matches[index]])
            for position, index in enumerate(ours)
            if index in self._before.matches
        ]
        ends = [(-1, -1), *rising(anchors), (len(ours), len(theirs))]
        for (begin, start), (end, stop) in pairwise(ends):
            our_gap = [index for index in ours[begin + 1 : end] if index not in self._before.matches]
            their_gap = [index for index in theirs[start + 1 : stop] if index not in self._after.matches]
            our_words = [self._word(self._before, index, radius) for index in our_gap]
            their_words = [self._word(self._after, index, radius) for index in their_gap]
            for block in SequenceMatcher(None, our_words, their_words, autojunk=False).get_matching_blocks():
                for step in range(block.size):
                    self._match(our_gap[block.a + step], their_gap[block.b + step])

    def _word(self, side: Side, index: int, radius: int) -> Hashable:
        has_weights = any(value.shape and value.data is None for value in side.graph.constants_of(side.node(index)))
        return side.labels.around[radius][index] if radius or has_weights else (id(side), index)

    def _untangle(self) -> None:
        """Drop matches, the latest first, until the union of both graphs has no circle.

        In a circle a node would be drawn both before and after another node.
        """
        while circle := self._circles():
            worst = next(index for index in reversed([*self._before.matches]) if self._merged(0, index) in circle)
            del self._after.matches[self._before.matches.pop(worst)]

    def _circles(self) -> set[Hashable]:
        """Return the nodes on circles, and between circles, in the union of both graphs."""
        needs: dict[Hashable, set[Hashable]] = {}
        for graph_index, side in enumerate((self._before, self._after)):
            for node in side.graph.nodes:
                producers = (side.graph.values[name].producer for name in node.inputs if name)
                needed = needs.setdefault(self._merged(graph_index, node.index), set())
                needed.update(self._merged(graph_index, producer) for producer in producers if producer is not None)
        return circles(needs)

    def _merged(self, graph_index: int, index: int) -> Hashable:
        side = self._after if graph_index else self._before
        if index not in side.matches:
            return graph_index, index, None
        return (side.matches[index], index) if graph_index else (index, side.matches[index])


def _aligned(ours: Node, theirs: Node) -> Iterator[tuple[str, str]]:
    """Yield the pairs of inputs that may match; if two inputs commute, each with each."""
    yield from zip(ours.inputs, theirs.inputs, strict=False)
    if ours.commutes and len(ours.inputs) == len(theirs.inputs) == 2:
        yield from zip(ours.inputs, reversed(theirs.inputs), strict=True)


def _alone(side: Side, nodes: Iterable[int], key: Key) -> dict[Hashable, int]:
    """Return the nodes by key, of keys that occur once; empty keys are left out."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index in nodes:
        groups[key(side, index)].append(index)
    return {name: indices[0] for name, indices in groups.items() if name and len(indices) == 1}
