"""Find the differences of two matched nodes: attributes, inputs, types."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, final

from hookpatch_onnx._model.graph import Graph, Node
from hookpatch_onnx._model.values import Value


def leaves_of(
    before: Graph, after: Graph, outer: tuple[Mapping[str, str], Mapping[str, str]]
) -> tuple[dict[str, Hashable], dict[str, Hashable]]:
    """Return keys for the inputs and outputs of both graphs, equal for equal names, else for equal positions."""
    leaves: tuple[dict[str, Hashable], dict[str, Hashable]] = (dict(outer[0]), dict(outer[1]))
    for kind, ours, theirs in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        common = set(ours) & set(theirs)
        own_names = ([name for name in ours if name not in common], [name for name in theirs if name not in common])
        for side, mine in zip(leaves, own_names, strict=True):
            side.update({name: (kind, name) for name in common})
            side.update({name: (kind, index) for index, name in enumerate(mine)})
    return leaves


@final
class NodeDifferences:
    """Finds the differences of matched nodes."""

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
        self._matched: Final = set(matches.values())
        self._outer: Final = outer

    def differences(self, index: int, match: int) -> Iterator[str]:
        """Yield a line for each difference of two matched nodes; another name is no difference."""
        ours, theirs = self._before.nodes[index], self._after.nodes[match]
        for name in sorted(ours.settings.keys() | theirs.settings.keys()):
            mine, its = ours.settings.get(name, "not given"), theirs.settings.get(name, "not given")
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
        for slot, (our_name, their_name) in enumerate(zip(ours, theirs, strict=False)):
            if not our_name or not their_name:
                if our_name or their_name:
                    words = ["given" if name else "left out" for name in (our_name, their_name)]
                    yield f"input {slot}: {words[0]} → {words[1]}"
                continue
            mine, its = self._before.values[our_name], self._after.values[their_name]
            if mine.kind == its.kind == "constant":
                if (mine.dtype, mine.shape) != (its.dtype, its.shape):
                    yield f"input {slot}: {mine.type} → {its.type}"
                elif mine.data != its.data and mine.data is not None and its.data is not None:
                    yield f"input {slot}: {mine.data} → {its.data}"
            elif not self.same(mine, its):
                sources = [self._source(self._before, mine), self._source(self._after, its)]
                yield f"input {slot}: {sources[0]} → {sources[1]}"

    def same(self, mine: Value, its: Value) -> bool:
        """Return True if two values match, or if a lost or gained node makes one: its place is reported anyway."""
        if mine.producer is not None and its.producer is not None and self._matches.get(mine.producer) == its.producer:
            return mine.slot == its.slot
        if mine.producer is not None and mine.producer not in self._matches:
            return True
        if its.producer is not None and its.producer not in self._matched:
            return True
        if mine.producer is not None or its.producer is not None or "constant" in (mine.kind, its.kind):
            return False
        ours, theirs = leaves_of(self._before, self._after, self._outer)
        return ours.get(mine.name, mine.name) == theirs.get(its.name, its.name)

    @staticmethod
    def _source(graph: Graph, value: Value) -> str:
        """Return where a value comes from, with its name: a constant, a node, an input."""
        if value.producer is None:
            return "a constant" if value.kind == "constant" else f"input '{value.name}'"
        return f"{graph.nodes[value.producer].op} '{value.name}'"

    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return keys for the values of these graphs, for comparing the graphs inside nodes."""
        ours = {name: name for name in self._before.values}
        theirs = {name: name for name in self._after.values}
        for index, match in self._matches.items():
            outputs = self._before.nodes[index].outputs, self._after.nodes[match].outputs
            theirs.update({its: mine for mine, its in zip(*outputs, strict=False)})
        return ours, theirs


def same_type(mine: Value, its: Value) -> bool:
    """Return True if two types agree as far as known; names of dimensions do not count."""
    if mine.dtype and its.dtype and mine.dtype != its.dtype:
        return False
    if mine.shape is None or its.shape is None:
        return True
    if len(mine.shape) != len(its.shape):
        return False
    return all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(mine.shape, its.shape, strict=True)
    )
