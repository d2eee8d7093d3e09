"""The shortest ways from a model's ``forward`` to all that was walked."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from hookpatch_export._frame import Frame

Route: TypeAlias = tuple[str, ...]


def routes(start: Frame) -> dict[Frame, Route]:
    """Return the shortest way to each call that a frame leads to, breadth first: nearer calls stand before others.

    Args:
        start: where ``forward`` is called.
    """
    found: dict[Frame, Route] = {start: ()}
    waiting = deque([start])
    while waiting:
        frame = waiting.popleft()
        for called in frame.calls:
            if called not in found:
                found[called] = (*found[frame], called.name)
                waiting.append(called)
    return found
