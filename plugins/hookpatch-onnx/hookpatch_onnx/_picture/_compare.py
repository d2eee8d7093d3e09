"""What changed from one model to another, graph by graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, final

import onnx

from hookpatch_onnx._picture._errors import NothingInCommonError
from hookpatch_onnx._picture._graph import Graph, Node, Value, body_of, graph_of
from hookpatch_onnx._picture._labels import Labels
from hookpatch_onnx._picture._match import Matching, Side
from hookpatch_onnx._picture._places import Place, places_of
from hookpatch_onnx._picture._record import PATCHES

_ENOUGH: Final = (
    0.05  # of the smaller graph's nodes: below that, and with other inputs or outputs, nothing is in common
)


@final
@dataclass(frozen=True, slots=True)
class GraphComparison:
    """Two graphs, node by node.

    Attributes:
        title: where they are: empty for the models' own, else a node's graph or a local function.
        before, after: the graphs.
        matches: which node of ``before`` is which of ``after``, by their numbers.
        changed: of those, by the number in ``before``: what is different, a line each; without names.
        places: where nodes were lost or gained, those that lie together as one.
        ends: what is different at the graph's inputs and outputs, a line each.
        initializers: what is different at the initializers, a line each.
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
        """The nodes that are only in ``before``."""
        return [node for node in self.before.nodes if node.index not in self.matches]

    @property
    def gained(self) -> list[Node]:
        """The nodes that are only in ``after``."""
        there = set(self.matches.values())
        return [node for node in self.after.nodes if node.index not in there]

    def nodes_of(self, place: Place) -> tuple[list[Node], list[Node]]:
        """Return the nodes of a place: those lost, those gained."""
        return [self.before.nodes[at] for at in place.lost], [self.after.nodes[at] for at in place.gained]

    def label_of(self, place: Place) -> str:
        """Return a name for a place: of a node in it, one that is not made up by a simplifier if there is one."""
        lost, gained = self.nodes_of(place)
        labels = [node.label for node in (*reversed(lost), *reversed(gained))]
        return next((label for label in labels if not label.startswith("_")), labels[0])

    @property
    def renamed(self) -> int:
        """How many matched nodes have other output names."""
        pairs = self.matches.items()
        return sum(self.before.nodes[one].outputs != self.after.nodes[other].outputs for one, other in pairs)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is different but names."""
        return not (self.changed or self.places or self.ends or self.initializers)


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models, graph by graph.

    Attributes:
        before, after: what they are called.
        graphs: the models' own graphs first, then graphs in nodes and local functions that both have.
        model: what is different about the models themselves, a line each: opsets, functions.
        patches: which patches were called before the one and the other was made, where that is known.
    """

    before: str
    after: str
    graphs: tuple[GraphComparison, ...]
    model: tuple[str, ...]
    patches: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is different but names."""
        return not self.model and all(graph.is_empty for graph in self.graphs)

    def ops(self) -> dict[str, tuple[int, int]]:
        """Return how often each operator is in the graphs compared, before and after, where that differs."""
        before, after = (
            sum((_ops(getattr(graph, side)) for graph in self.graphs), Counter[str]()) for side in ("before", "after")
        )
        ops = sorted(before.keys() | after.keys(), key=lambda op: (-abs(after[op] - before[op]), op))
        return {op: (before[op], after[op]) for op in ops if before[op] != after[op]}


def compare(before: onnx.ModelProto, after: onnx.ModelProto, names: tuple[str, str]) -> Comparison:
    """Return what changed from one model to another.

    Args:
        before, after: the models; their weights are not looked at.
        names: what they are called.

    Raises:
        NothingInCommonError: hardly a node of the one is found in the other, and inputs or outputs differ, too.
    """
    first = _graphs("", graph_of(before.graph), graph_of(after.graph))
    main = first[0]
    smaller = min(len(main.before.nodes), len(main.after.nodes))
    if (smaller == 0 or len(main.matches) < _ENOUGH * smaller) and main.ends:
        ours, theirs = len(main.before.nodes), len(main.after.nodes)
        found = f"{len(main.matches) or 'none'} of the {ours} nodes of the one is among the {theirs} of the other"
        raise NothingInCommonError(*names, f"{found}, and {main.ends[0]}")
    functions, lines = _functions(before, after)
    graphs = [*first, *functions]
    return Comparison(*names, tuple(graphs), (*_opsets(before, after), *lines), (_patches(before), _patches(after)))


def _graphs(
    title: str, before: Graph, after: Graph, outer: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> list[GraphComparison]:
    """Return the comparison of two graphs, and of those in nodes that both have."""
    sides = [
        Side(graph, Labels(graph, leaves))
        for graph, leaves in zip((before, after), _leaves(before, after, outer), strict=True)
    ]
    Matching(*sides).run()
    matches = dict(sorted(sides[0].other.items()))
    same = _SameValue(before, after, matches, outer)
    changed = {one: lines for one, other in matches.items() if (lines := tuple(same.differences(one, other)))}
    inner: list[GraphComparison] = []
    for one, other in matches.items():
        ours, theirs = before.nodes[one], after.nodes[other]
        for name in (name for name in ours.graphs if name in theirs.graphs):
            within = f"{ours.op} '{ours.label}' {name}"
            names = same.names()
            inner += _graphs(
                f"{title} / {within}" if title else within,
                graph_of(ours.graphs[name]),
                graph_of(theirs.graphs[name]),
                names,
            )
    found = GraphComparison(
        title=title,
        before=before,
        after=after,
        matches=matches,
        changed=changed,
        places=places_of(before, after, matches),
        ends=(
            *_end_lines("input", before, after, before.inputs, after.inputs),
            *_end_lines("output", before, after, before.outputs, after.outputs),
        ),
        initializers=tuple(_initializer_lines(before, after)),
    )
    return [found, *inner]


def _leaves(
    before: Graph, after: Graph, outer: tuple[Mapping[str, str], Mapping[str, str]]
) -> tuple[dict[str, Hashable], dict[str, Hashable]]:
    """Return what stands for inputs and outputs in both graphs: those of one name are one, else those of one place."""
    leaves: tuple[dict[str, Hashable], dict[str, Hashable]] = (dict(outer[0]), dict(outer[1]))
    for kind, ours, theirs in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        common = set(ours) & set(theirs)
        rest = ([name for name in ours if name not in common], [name for name in theirs if name not in common])
        for side, mine in zip(leaves, rest, strict=True):
            side.update({name: (kind, name) for name in common})
            side.update({name: (kind, at) for at, name in enumerate(mine)})
    return leaves


@final
class _SameValue:
    """Tells whether matched nodes do the same with the same."""

    def __init__(
        self,
        before: Graph,
        after: Graph,
        matches: Mapping[int, int],
        outer: tuple[Mapping[str, str], Mapping[str, str]],
    ) -> None:
        self._before: Final = before
        self._after: Final = after
        self._matches: Final = matches
        self._there: Final = set(matches.values())
        self._outer: Final = outer

    def differences(self, one: int, other: int) -> Iterator[str]:
        """Yield a line for each difference of two matched nodes. Names are none."""
        ours, theirs = self._before.nodes[one], self._after.nodes[other]
        for name in sorted(ours.attributes.keys() | theirs.attributes.keys()):
            mine, its = ours.attributes.get(name, "not given"), theirs.attributes.get(name, "not given")
            if mine != its:
                yield f"{name}: {mine} → {its}"
        if ours.graphs.keys() != theirs.graphs.keys():
            yield f"graphs: {', '.join(ours.graphs) or 'none'} → {', '.join(theirs.graphs) or 'none'}"
        yield from self._input_differences(ours, theirs)
        for slot, (mine, its) in enumerate(zip(ours.outputs, theirs.outputs, strict=False)):
            if mine and its and not same_type(self._before.values[mine], self._after.values[its]):
                which = "output" if len(ours.outputs) == 1 else f"output {slot}"
                yield f"{which}: {self._before.values[mine].type} → {self._after.values[its].type}"
        if len(ours.outputs) != len(theirs.outputs):
            yield f"outputs: {len(ours.outputs)} → {len(theirs.outputs)}"

    def _input_differences(self, ours: Node, theirs: Node) -> Iterator[str]:
        if len(ours.inputs) != len(theirs.inputs):
            yield f"inputs: {len(ours.inputs)} → {len(theirs.inputs)}"
        straight = list(self._slot_differences(ours.inputs, theirs.inputs))
        if straight and ours.commutes and not list(self._slot_differences(ours.inputs, theirs.inputs[::-1])):
            return
        yield from straight

    def _slot_differences(self, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Iterator[str]:
        for slot, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if not one or not other:
                if one or other:
                    yield f"input {slot}: {'given' if one else 'left out'} → {'given' if other else 'left out'}"
                continue
            mine, its = self._before.values[one], self._after.values[other]
            if mine.kind == its.kind == "constant":
                if (mine.dtype, mine.shape) != (its.dtype, its.shape):
                    yield f"input {slot}: {mine.type} → {its.type}"
                elif mine.data != its.data and mine.data is not None and its.data is not None:
                    yield f"input {slot}: {mine.data} → {its.data}"
            elif not self.same(mine, its):
                yield f"input {slot}: {_source(mine)} → {_source(its)}"

    def same(self, mine: Value, its: Value) -> bool:
        """Tell whether two values are one. Where a lost or a gained node makes one of them, its place tells of it."""
        if mine.producer is not None and its.producer is not None and self._matches.get(mine.producer) == its.producer:
            return mine.slot == its.slot
        if mine.producer is not None and mine.producer not in self._matches:
            return True
        if its.producer is not None and its.producer not in self._there:
            return True
        if mine.producer is not None or its.producer is not None or "constant" in (mine.kind, its.kind):
            return False
        ours, theirs = _leaves(self._before, self._after, self._outer)
        return ours.get(mine.name, mine.name) == theirs.get(its.name, its.name)

    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return, for the graphs in nodes, what stands for the values here: a name that both sides share."""
        ours = {name: name for name in self._before.values}
        theirs = {name: name for name in self._after.values}
        for one, other in self._matches.items():
            outputs = self._before.nodes[one].outputs, self._after.nodes[other].outputs
            theirs.update({its: mine for mine, its in zip(*outputs, strict=False)})
        return ours, theirs


def same_type(one: Value, other: Value) -> bool:
    """Tell whether two types agree as far as both are known; names of dimensions mean nothing."""
    if one.dtype and other.dtype and one.dtype != other.dtype:
        return False
    if one.shape is None or other.shape is None:
        return True
    if len(one.shape) != len(other.shape):
        return False
    return all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(one.shape, other.shape, strict=True)
    )


def _source(value: Value) -> str:
    return "a constant" if value.kind == "constant" else "another node" if value.kind == "node" else "an input"


def _end_lines(kind: str, before: Graph, after: Graph, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Iterator[str]:
    """Yield what is different at the graph's inputs, or at its outputs: by name, and what has another name by place."""
    lost = [name for name in ours if name not in theirs]
    gained = [name for name in theirs if name not in ours]
    for name in (name for name in ours if name in theirs):
        mine, its = before.values[name], after.values[name]
        if not same_type(mine, its):
            yield f"{kind} '{name}': {mine.type} → {its.type}"
    for one, other in zip(lost, gained, strict=False):
        types = before.values[one].type, after.values[other].type
        if types[0] != types[1]:
            yield f"{kind} '{one}' {types[0]} → '{other}' {types[1]}"
    for name in lost[len(gained) :]:
        yield f"{kind} '{name}' {before.values[name].type} is lost"
    for name in gained[len(lost) :]:
        yield f"{kind} '{name}' {after.values[name].type} is gained"


def _initializer_lines(before: Graph, after: Graph) -> Iterator[str]:
    """Yield which initializers of one name have another dtype or shape, and how many came or went."""
    ours, theirs = Counter[str](), Counter[str]()
    for name in before.initializers:
        one = before.values[name]
        if name in after.values and after.values[name].kind == "constant":
            other = after.values[name]
            if one.type != other.type:
                yield f"initializer '{name}': {one.type} → {other.type}"
        else:
            ours[one.type] += 1
    for name in after.initializers:
        if name not in before.values or before.values[name].kind != "constant":
            theirs[after.values[name].type] += 1
    common = ours & theirs  # only called otherwise
    for word, types in (("lost", ours - common), ("gained", theirs - common)):
        for kind, count in types.most_common():
            yield f"{count} initializer{'s' * (count > 1)} {kind} {word}"


def _opsets(before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[str]:
    ours, theirs = ({one.domain or "ai.onnx": one.version for one in model.opset_import} for model in (before, after))
    for domain in sorted(ours.keys() | theirs.keys()):
        if ours.get(domain) != theirs.get(domain):
            yield f"opset {domain}: {ours.get(domain, 'none')} → {theirs.get(domain, 'none')}"


def _functions(before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[list[GraphComparison], list[str]]:
    """Return the comparisons of the local functions that both have, and which one has alone."""
    ours, theirs = (
        {f"{one.domain}.{one.name}{':' * bool(one.overload)}{one.overload}": one for one in model.functions}
        for model in (before, after)
    )
    found = [
        graph
        for name in ours.keys() & theirs.keys()
        for graph in _graphs(f"function {name}", body_of(ours[name]), body_of(theirs[name]))
    ]
    lines = [f"function {name} is lost" for name in sorted(ours.keys() - theirs.keys())]
    lines += [f"function {name} is gained" for name in sorted(theirs.keys() - ours.keys())]
    return sorted(found, key=lambda graph: graph.title), lines


def _ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes) + Counter({"Constant": graph.constants})


def _patches(model: onnx.ModelProto) -> tuple[str, ...]:
    noted = {one.key: one.value for one in model.metadata_props}
    return tuple(filter(None, noted.get(PATCHES, "").split(",")))
