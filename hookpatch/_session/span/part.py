"""Parts that begin and end with a session beside its patches, such as the payload for child processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final


def _needs_a_lock(number: int) -> bool:
    return False


@final
class SessionPart:
    """Functions to begin and end a part with a session; all take the session's number.

    ``end`` may be called without ``begin``, and again. ``begin_again`` and ``end_again`` do the same on the fast path,
    or return False if the act needs a lock.
    """

    __slots__ = ("begin", "begin_again", "end", "end_again")

    def __init__(
        self,
        begin: Callable[[int], object],
        end: Callable[[int], object],
        begin_again: Callable[[int], bool] = _needs_a_lock,
        end_again: Callable[[int], bool] = _needs_a_lock,
    ) -> None:
        self.begin: Final = begin
        self.end: Final = end
        self.begin_again: Final = begin_again
        self.end_again: Final = end_again
