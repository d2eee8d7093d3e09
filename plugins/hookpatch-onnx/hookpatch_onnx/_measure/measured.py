"""Measure the changes of a comparison: run both models on one input, and compare the values around each change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch_onnx._compare.compare import Comparison, GraphComparison
from hookpatch_onnx._measure.boundaries import Boundaries, Boundary, Pair
from hookpatch_onnx._measure.distance import Distance, distance
from hookpatch_onnx._measure.inputs import Feed, feeds_of
from hookpatch_onnx._measure.session import values_of
from hookpatch_onnx._measure.weights import Tensors, Weights, compare_weights

Effect: TypeAlias = Literal["equal", "rounding", "differs", "passed on", "not measured"]

_AS_MUCH: Final = 10  # a change passes on what comes in, if what goes out is not ten times as much


@final
@dataclass(frozen=True, slots=True)
class Measure:
    """What a change does to the numbers.

    Attributes:
        behind: the largest distance at the nearest values behind the change; None if no value can be compared.
        incoming: the largest distance that comes in from before; None if nothing comes in but inputs.
        at: the names of the value behind the change in both models.
    """

    behind: Distance | None = None
    incoming: Distance | None = None
    at: Pair | None = None

    @property
    def effect(self) -> Effect:
        """What the distances mean."""
        if self.behind is None:
            return "not measured"
        if self.behind.verdict == "differs" and self.incoming is not None and self.incoming.verdict == "differs":
            return "passed on" if self.behind.relative <= _AS_MUCH * self.incoming.relative else "differs"
        return self.behind.verdict

    @property
    def words(self) -> str:
        """The measure for a reader."""
        if self.behind is None:
            return "not measured: no later value has the same shape in both models"
        passed = f"; {self.incoming.words} before it" if self.effect == "passed on" and self.incoming else ""
        return f"{self.behind.words}{passed}"


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """What two models differ in by numbers.

    Attributes:
        weights: the initializers, compared.
        seed: the seed of the input; None if the models were not run.
        inputs: the type of each input.
        outputs: the measure of each output of the models.
        places: the measures of the places of the models' graphs, in their order.
        changed: the measures of the changed nodes, by the number in the first graph.
    """

    weights: Weights
    seed: int | None = None
    inputs: Mapping[str, str] | None = None
    outputs: Mapping[str, Measure] | None = None
    places: tuple[Measure, ...] = ()
    changed: Mapping[int, Measure] | None = None


def measure(
    comparison: Comparison,
    files: tuple[str | os.PathLike[str], str | os.PathLike[str]],
    arrays: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Measured:
    """Return the distances of two models; graphs inside nodes and functions are not measured on their own.

    Args:
        comparison: the comparison of the models.
        files: the models' files.
        arrays: inputs to use, by name; other inputs are made.
        seed: the seed of what is made; None: only the weights are compared.

    Raises:
        ModelFileError: a file cannot be read.
        ModelRunError: a model cannot be run, or no input fits both models.
    """
    graph = comparison.graphs[0]
    models = Tensors(files[0]), Tensors(files[1])
    weights = compare_weights(graph, *models)
    if seed is None:
        return Measured(weights)
    feeds = feeds_of(graph, arrays or {}, seed)
    boundaries = Boundaries(graph)
    places = [boundaries.of_place(place) for place in graph.places]
    changed = {index: boundaries.of_node(index) for index in graph.changed}
    ends = _ends(graph)
    pairs = {
        pair
        for boundary in (*places, *changed.values())
        for pair in (*boundary.before, *(p for row in boundary.behind for p in row))
    }
    pairs.update(ends.values())
    distances = _distances(models, pairs, feeds)
    return Measured(
        weights=weights,
        seed=seed,
        inputs={name: f"{array.dtype}{list(array.shape)}" for name, array in {**feeds[1], **feeds[0]}.items()},
        outputs={name: Measure(distances[pair], None, pair) for name, pair in ends.items()},
        places=tuple(_measure(place, distances) for place in places),
        changed={index: _measure(boundary, distances) for index, boundary in changed.items()},
    )


def _ends(graph: GraphComparison) -> dict[str, Pair]:
    """Return the outputs of both models, paired by name, the rest by position."""
    ours, theirs = graph.before.outputs, graph.after.outputs
    lost, gained = (
        [name for name in names if name not in opposite] for names, opposite in ((ours, theirs), (theirs, ours))
    )
    return {name: (name, name) for name in ours if name in theirs} | {
        f"{name} → {their_name}": (name, their_name) for name, their_name in zip(lost, gained, strict=False)
    }


def _distances(
    models: tuple[Tensors, Tensors], pairs: Iterable[Pair], feeds: tuple[Feed, Feed]
) -> dict[Pair, Distance | None]:
    wanted = sorted(pairs)
    ours, theirs = (
        values_of(tensors, [pair[side] for pair in wanted], feeds[side]) for side, tensors in enumerate(models)
    )
    return {pair: distance(ours[pair[0]], theirs[pair[1]]) for pair in wanted}


def _measure(boundary: Boundary, distances: Mapping[Pair, Distance | None]) -> Measure:
    """Return the measure of a change: the largest distance of the nearest row of which a value can be compared."""
    incoming = [apart for pair in boundary.before if (apart := distances[pair]) is not None]
    for row in boundary.behind:
        candidates = [(apart, pair) for pair in row if (apart := distances[pair]) is not None]
        if candidates:
            behind, farthest = max(candidates, key=lambda candidate: candidate[0].relative)
            return Measure(behind, max(incoming, key=lambda value: value.relative, default=None), farthest)
    return Measure()
