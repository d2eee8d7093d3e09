"""Find the shortest routes from a model's ``forward`` to all calls of a walk."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from hookpatch_export._frames.frame import Frame

Route: TypeAlias = tuple[str, ...]


def routes(start: Frame) -> dict[Frame, Route]:
    """Return the shortest route to each call that a frame leads to, breadth first: nearer calls come before others.

    Args:
        start: the frame that calls ``forward``.
    """
    shortest: dict[Frame, Route] = {start: ()}
    waiting = deque([start])
    while waiting:
        frame = waiting.popleft()
        for called in frame.calls:
            if called not in shortest:
                shortest[called] = (*shortest[frame], called.name)
                waiting.append(called)
    return shortest
