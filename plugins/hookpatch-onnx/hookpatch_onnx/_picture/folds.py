"""Fold runs of unchanged nodes: the page draws a fold as one box until a reader opens the fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_FEW_ENDS: Final = 8  # inputs, or outputs, that are always seen
_RUN: Final = 3  # nodes that are worth a fold


def folds_of(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Sequence[Any]]) -> dict[int, int]:
    """Return the number of the fold, by node; a fold is a run of unchanged nodes away from changes.

    No path leaves a fold and enters the same fold again, so folded graphs have no circles. To that end a fold joins
    only nodes of equal depth: the greatest number of changes on a path to the node.
    """
    count = len(nodes)
    following: dict[int, list[int]] = defaultdict(list)
    for start, end, *_ in edges:
        following[start].append(end)
    is_seen = [node["state"] != "same" for node in nodes]
    for start, end, *_ in edges:
        if nodes[start]["state"] != "same" or nodes[end]["state"] != "same":
            is_seen[start] = is_seen[end] = True
    for kind in ("input", "output"):
        ends = [node["id"] for node in nodes if node["kind"] == kind]
        for index in ends if len(ends) <= _FEW_ENDS else ():
            is_seen[index] = True
    depth = [0] * count
    for index in range(count):
        for end in following[index]:
            depth[end] = max(depth[end], depth[index] + is_seen[index])
    for index in reversed(range(count)):  # a node without inputs gets the depth of its first user, not depth 0
        if not depth[index] and not is_seen[index] and following[index]:
            depth[index] = min(depth[end] for end in following[index])
    near: dict[int, list[int]] = defaultdict(list)
    for start, end, *_ in edges:
        if not is_seen[start] and not is_seen[end] and depth[start] == depth[end]:
            near[start].append(end)
            near[end].append(start)
    folds: dict[int, int] = {}
    for index in range(count):
        if index in folds or is_seen[index]:
            continue
        run = _reached(index, near)
        if len(run) >= _RUN:
            number = len(set(folds.values()))
            folds.update(dict.fromkeys(run, number))
    return folds


def _reached(start: int, near: Mapping[int, Iterable[int]]) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        for neighbour in near.get(waiting.pop(), ()):
            if neighbour not in reached:
                reached.add(neighbour)
                waiting.append(neighbour)
    return reached
