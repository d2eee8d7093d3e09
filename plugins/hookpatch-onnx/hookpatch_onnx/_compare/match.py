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
        other: by node, the number of the matched node in the other graph.
    """

    __slots__ = ("graph", "labels", "other")

    def __init__(self, graph: Graph, labels: Labels) -> None:
        self.graph: Final = graph
        self.labels: Final = labels
        self.other: Final[dict[int, int]] = {}

    def free(self) -> Iterator[int]:
        """Yield the nodes without a match, in topological order."""
        return (index for index in self.labels.order if index not in self.other)

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
        return [(user, 0 if self.node(user).commutes else slot) for user, slot in users if user not in self.other]

    def producer(self, name: str) -> tuple[int, int] | None:
        """Return the producer of a value, and the index of the output, if the producer has no match yet."""
        value = self.graph.values[name] if name else None
        if value is None or value.producer is None or value.producer in self.other:
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

    def run(self) -> None:
        """Match all nodes that can be matched."""
        whole: list[Key] = [
            lambda side, at: (side.labels.upstream[at], side.labels.downstream[at]),
            lambda side, at: side.labels.upstream[at],
            lambda side, at: side.labels.downstream[at],
        ]
        for key in whole:
            self._by(key, as_many=True)
        self._by(lambda side, at: (side.node(at).op, names) if (names := side.weights(at)) else None)
        self._by(lambda side, at: None if _NUMBERED.search(name := side.node(at).label) else (side.node(at).op, name))
        self._by(lambda side, at: (side.labels.own[at], scope) if (scope := side.node(at).scope) else None)
        for reach in range(RADIUS, _OWN - 1, -1):
            self._spread_all(reach)
        self._by(lambda side, at: (side.labels.around[1][at], side.node(at).label))
        for radius in range(RADIUS, 0, -1):
            self._by(lambda side, at, radius=radius: side.labels.around[radius][at])  # type: ignore[misc]  # a default binds it
        for radius in range(RADIUS, -1, -1):
            self._in_order(radius)
        self._spread_all(_OPERATOR)
        self._untangle()

    def _by(self, key: Key, as_many: bool = False) -> None:
        """Match nodes whose key occurs once in each graph; with ``as_many`` also equally often in both.

        Nodes with the key None are left out. Several nodes with one key have one structure: names, then order, tell
        them apart.
        """
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for at, side in enumerate((self._before, self._after)):
            for index in side.free():
                if (found := key(side, index)) is not None:
                    groups[found][at].append(index)
        for ours, theirs in groups.values():
            if len(ours) == len(theirs) and (as_many or len(ours) == 1):
                for one, other in self._paired(ours, theirs):
                    self._match(one, other)

    def _paired(self, ours: Sequence[int], theirs: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of equally many nodes: by names of weights, by modules, by names of outputs, by order."""
        rest, left = list(ours), list(theirs)
        keys: tuple[Key, ...] = (
            Side.weights,
            lambda side, index: side.node(index).scope,
            lambda side, index: side.node(index).label,
        )
        for key in keys:
            mine, its = _alone(self._before, rest, key), _alone(self._after, left, key)
            for name in (name for name in mine if name in its):
                rest.remove(mine[name])
                left.remove(its[name])
                yield mine[name], its[name]
        yield from zip(rest, left, strict=True)

    def _match(self, one: int, other: int) -> None:
        if one not in self._before.other and other not in self._after.other:
            self._set(one, other)
            self._spread()

    def _set(self, one: int, other: int) -> None:
        self._before.other[one] = other
        self._after.other[other] = one
        self._fresh.append((one, other))

    def _spread_all(self, reach: int) -> None:
        """Match neighbours of inputs, outputs and all matches if alike as far as ``reach``, and so on."""
        self._reach = reach
        ours, theirs = self._before.graph, self._after.graph
        for mine, its in self._before.labels.same(ours.inputs, theirs.inputs, self._after.labels):
            self._match_consumers(self._before.consumers(mine), self._after.consumers(its))
        for mine, its in self._before.labels.same(ours.outputs, theirs.outputs, self._after.labels):
            self._match_producers(mine, its)
        self._fresh.extend(self._before.other.items())
        self._spread()

    def _spread(self) -> None:
        """Match neighbours of new matches, and so on."""
        while self._fresh:
            one, other = self._fresh.popleft()
            if self._reach == _NOTHING:
                continue
            ours, theirs = self._before.node(one), self._after.node(other)
            for mine, its in _aligned(ours, theirs):
                self._match_producers(mine, its)
            for mine, its in zip(ours.outputs, theirs.outputs, strict=False):
                self._match_consumers(self._before.consumers(mine), self._after.consumers(its))

    def _match_producers(self, mine: str, its: str) -> None:
        made, makes = self._before.producer(mine), self._after.producer(its)
        if made and makes and made[1] == makes[1] and self._alike(made[0], makes[0]):
            self._set(made[0], makes[0])

    def _match_consumers(self, ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> None:
        """Match the users of a value at the same input, if equally many; the most alike first."""
        radii = range(RADIUS, max(self._reach, _OWN) - 1, -1)
        keys: list[Key] = [lambda side, at, radius=radius: side.labels.around[radius][at] for radius in radii]  # type: ignore[misc]  # likewise
        if self._reach == _OPERATOR:
            keys += [lambda side, at: (side.node(at).op, side.types(at)), lambda side, at: side.node(at).op]
        for key in keys:
            groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
            for index, (side, users) in enumerate(((self._before, ours), (self._after, theirs))):
                for user, slot in users:
                    if user not in side.other and user not in groups[key(side, user), slot][index]:
                        groups[key(side, user), slot][index].append(user)
            for mine, its in groups.values():
                if len(mine) == len(its) and (len(mine) == 1 or self._reach == _OPERATOR):
                    for one, other in self._paired(mine, its):
                        self._set(one, other)

    def _alike(self, one: int, other: int) -> bool:
        if self._reach == _OPERATOR:
            return self._before.node(one).op == self._after.node(other).op
        return self._before.labels.around[self._reach][one] == self._after.labels.around[self._reach][other]

    def _in_order(self, radius: int) -> None:
        """Match nodes between matches by order; at radius 0, without neighbours, only nodes with weights."""
        ours, theirs = list(self._before.labels.order), list(self._after.labels.order)
        place = {index: at for at, index in enumerate(theirs)}
        anchors = [
            (at, place[self._before.other[index]]) for at, index in enumerate(ours) if index in self._before.other
        ]
        ends = [(-1, -1), *rising(anchors), (len(ours), len(theirs))]
        for (begin, start), (end, stop) in pairwise(ends):
            gap = [index for index in ours[begin + 1 : end] if index not in self._before.other]
            other = [index for index in theirs[start + 1 : stop] if index not in self._after.other]
            words = [self._word(self._before, index, radius) for index in gap]
            others = [self._word(self._after, index, radius) for index in other]
            for block in SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks():
                for step in range(block.size):
                    self._match(gap[block.a + step], other[block.b + step])

    def _word(self, side: Side, index: int, radius: int) -> Hashable:
        has_weights = any(value.shape and value.data is None for value in side.graph.constants_of(side.node(index)))
        return side.labels.around[radius][index] if radius or has_weights else (id(side), index)

    def _untangle(self) -> None:
        """Drop matches, the latest first, until the union of both graphs has no circle.

        In a circle a node would be drawn both before and after another node.
        """
        while circle := self._circles():
            worst = next(one for one in reversed([*self._before.other]) if self._merged(0, one) in circle)
            del self._after.other[self._before.other.pop(worst)]

    def _circles(self) -> set[Hashable]:
        """Return the nodes on circles, and between circles, in the union of both graphs."""
        needs: dict[Hashable, set[Hashable]] = {}
        for index, side in enumerate((self._before, self._after)):
            for node in side.graph.nodes:
                made = (side.graph.values[name].producer for name in node.inputs if name)
                needed = needs.setdefault(self._merged(index, node.index), set())
                needed.update(self._merged(index, one) for one in made if one is not None)
        return circles(needs)

    def _merged(self, at: int, index: int) -> Hashable:
        side = self._after if at else self._before
        if index not in side.other:
            return at, index, None
        return (side.other[index], index) if at else (index, side.other[index])


def _aligned(ours: Node, theirs: Node) -> Iterator[tuple[str, str]]:
    """Yield the pairs of inputs that may match; if two inputs commute, each with each."""
    yield from zip(ours.inputs, theirs.inputs, strict=False)
    if ours.commutes and len(ours.inputs) == len(theirs.inputs) == 2:
        yield from zip(ours.inputs, reversed(theirs.inputs), strict=True)


def _alone(side: Side, nodes: Iterable[int], key: Key) -> dict[Hashable, int]:
    """Return the nodes by key, of keys that occur once; empty keys are left out."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for index in nodes:
        found[key(side, index)].append(index)
    return {name: indices[0] for name, indices in found.items() if name and len(indices) == 1}
