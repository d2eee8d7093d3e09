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
    followers: dict[Hashable, set[Hashable]] = {element: set() for element in needs}
    for element, needed in needs.items():
        for predecessor in needed:
            followers[predecessor].add(element)
    return followers


def _without_ends(needs: Mapping[Hashable, set[Hashable]]) -> dict[Hashable, set[Hashable]]:
    """Remove elements that need no other element until none is left; return the rest (Kahn, 1962)."""
    remaining = {element: set(needed) for element, needed in needs.items()}
    followers = _turned(needs)
    ready = [element for element, needed in remaining.items() if not needed]
    while ready:
        element = ready.pop()
        del remaining[element]
        for follower in followers[element]:
            remaining[follower].discard(element)
            if not remaining[follower]:
                ready.append(follower)
    return remaining


def rising(anchors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the anchors that rises in both numbers (patience sorting)."""
    ends: list[int] = []
    chains: list[tuple[int, int]] = []
    before: dict[tuple[int, int], tuple[int, int] | None] = {}
    for anchor in anchors:
        position = bisect_left(ends, anchor[1])
        before[anchor] = chains[position - 1] if position else None
        ends[position : position + 1], chains[position : position + 1] = [anchor[1]], [anchor]
    chain: list[tuple[int, int]] = []
    last = chains[-1] if chains else None
    while last is not None:
        chain.append(last)
        last = before[last]
    return chain[::-1]
