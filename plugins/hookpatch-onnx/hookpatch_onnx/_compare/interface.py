"""Compare two graphs as a whole: inputs and outputs, initializers, opsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx

from hookpatch_onnx._compare.differences import same_type
from hookpatch_onnx._model.graph import Graph


def end_lines(kind: str, before: Graph, after: Graph, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each difference of the inputs, or of the outputs: paired by name, else by position."""
    lost = [name for name in ours if name not in theirs]
    gained = [name for name in theirs if name not in ours]
    for name in (name for name in ours if name in theirs):
        mine, its = before.values[name], after.values[name]
        if not same_type(mine, its):
            yield f"{kind} '{name}': {mine.type} → {its.type}"
    for lost_name, gained_name in zip(lost, gained, strict=False):
        types = before.values[lost_name].type, after.values[gained_name].type
        if types[0] != types[1]:
            yield f"{kind} '{lost_name}' {types[0]} → '{gained_name}' {types[1]}"
    for name in lost[len(gained) :]:
        yield f"{kind} '{name}' {before.values[name].type} is lost"
    for name in gained[len(lost) :]:
        yield f"{kind} '{name}' {after.values[name].type} is gained"


def initializer_lines(before: Graph, after: Graph) -> Iterator[str]:
    """Yield a line for each initializer with another dtype or shape, and for lost and gained ones by type.

    Initializers whose names the exporter has numbered are counted by type: one more initializer renames the others.
    """
    ours, theirs = (Counter(graph.values[name].type for name in graph.initializers) for graph in (before, after))
    named = [name for name in before.initializers if name in after.initializers and not name[-1:].isdigit()]
    for name in named:
        our_type, their_type = before.values[name].type, after.values[name].type
        if our_type != their_type:
            yield f"initializer '{name}': {our_type} → {their_type}"
        ours[our_type] -= 1
        theirs[their_type] -= 1
    for word, types in (("lost", ours - theirs), ("gained", theirs - ours)):
        for kind, count in types.most_common():
            yield f"{count} initializer{'s' * (count > 1)} {kind} {word}"


def opset_lines(before: onnx.ModelProto, after: onnx.ModelProto) -> Iterator[str]:
    """Yield a line for each domain with another opset version."""
    ours, theirs = (
        {opset.domain or "ai.onnx": opset.version for opset in model.opset_import} for model in (before, after)
    )
    for domain in sorted(ours.keys() | theirs.keys()):
        if ours.get(domain) != theirs.get(domain):
            yield f"opset {domain}: {ours.get(domain, 'none')} → {theirs.get(domain, 'none')}"
