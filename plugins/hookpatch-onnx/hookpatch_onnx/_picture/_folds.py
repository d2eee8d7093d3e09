"""Runs of unchanged nodes, each of which is drawn as one box until it is opened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_FEW_ENDS: Final = 8  # inputs, or outputs, that are always seen
_RUN: Final = 3  # nodes that are worth a fold


def folds_of(nodes: Sequence[Mapping[str, Any]], edges: Sequence[Sequence[Any]]) -> dict[int, int]:
    """Return, by node, the number of its fold: a run of unchanged nodes that is not next to a change.

    No way leads out of a fold and into it again, so that folded graphs have no circles: in one fold there are only
    nodes before which equally many changes lie, on the way on which there are most.
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
        for at in ends if len(ends) <= _FEW_ENDS else ():
            is_seen[at] = True
    depth = [0] * count
    for at in range(count):
        for end in following[at]:
            depth[end] = max(depth[end], depth[at] + is_seen[at])
    for at in reversed(range(count)):  # what needs nothing lies with what it is for, not before all changes
        if not depth[at] and not is_seen[at] and following[at]:
            depth[at] = min(depth[end] for end in following[at])
    near: dict[int, list[int]] = defaultdict(list)
    for start, end, *_ in edges:
        if not is_seen[start] and not is_seen[end] and depth[start] == depth[end]:
            near[start].append(end)
            near[end].append(start)
    folds: dict[int, int] = {}
    for at in range(count):
        if at in folds or is_seen[at]:
            continue
        run = _reached(at, near)
        if len(run) >= _RUN:
            number = len(set(folds.values()))
            folds.update(dict.fromkeys(run, number))
    return folds


def _reached(start: int, near: Mapping[int, Iterable[int]]) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        for one in near.get(waiting.pop(), ()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found
