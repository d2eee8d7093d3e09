"""Parts that begin and end with a session beside its patches, such as the payload for child processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final


@final
class SessionPart(NamedTuple):
    """Functions to begin and end a part with a session; both take the session's number.

    ``end`` may be called without ``begin``, and again. ``begin_again`` and ``end_again`` do the same on the fast path,
    or return False if the act needs a lock.
    """

    begin: Callable[[int], object]
    end: Callable[[int], object]
    begin_again: Callable[[int], bool] | None = None
    end_again: Callable[[int], bool] | None = None
