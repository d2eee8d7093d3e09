"""Algorithms on orders: find circles, find the longest common rising part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence


def circles(needs: Mapping[Hashable, set[Hashable]]) -> set[Hashable]:
    """Return the elements on circles, and between two circles.

    Args:
        needs: for each element, the elements that must come before.
    """
    return set(_without_ends(_turned(_without_ends(needs))))


def _turned(needs: Mapping[Hashable, set[Hashable]]) -> dict[Hashable, set[Hashable]]:
    found: dict[Hashable, set[Hashable]] = {one: set() for one in needs}
    for one, needed in needs.items():
        for other in needed:
            found[other].add(one)
    return found


def _without_ends(needs: Mapping[Hashable, set[Hashable]]) -> dict[Hashable, set[Hashable]]:
    """Remove elements that need no other element until none is left; return the rest (Kahn, 1962)."""
    left = {one: set(needed) for one, needed in needs.items()}
    followers = _turned(needs)
    ready = [one for one, needed in left.items() if not needed]
    while ready:
        one = ready.pop()
        del left[one]
        for follower in followers[one]:
            left[follower].discard(one)
            if not left[follower]:
                ready.append(follower)
    return left


def rising(anchors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the anchors that rises in both numbers (patience sorting)."""
    ends: list[int] = []
    chains: list[tuple[int, int]] = []
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for anchor in anchors:
        at = bisect_left(ends, anchor[1])
        before[anchor] = chains[at - 1] if at else None
        ends[at : at + 1], chains[at : at + 1] = [anchor[1]], [anchor]
    found: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        found.append(last)
        last = before[last]
    return found[::-1]
