"""Parts that begin and end with a session beside its patches, such as the payload for child processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from hookpatch._session.ledger import Requested
from hookpatch._session.lifecycle.prepared import Prepared

Pairs: TypeAlias = Sequence[tuple[Prepared, Requested]]


def _needs_a_lock(number: int) -> bool:
    return False


@final
class Quick:
    """Functions to begin and end a part without notes, on the fast path.

    Attributes:
        put: begins; returns False, with nothing changed, if the part has to write notes.
        take: ends; returns False if ``end_again`` has to end the part.
        note: writes the notes that ``put`` left out, for the session's number; repeated after an interrupt.
        pairs: hookpatch's own patches that the session applies with its patches.
    """

    __slots__ = ("note", "pairs", "put", "take")

    def __init__(
        self, put: Callable[[], bool], take: Callable[[], bool], note: Callable[[int], object], pairs: Pairs = ()
    ) -> None:
        self.put: Final = put
        self.take: Final = take
        self.note: Final = note
        self.pairs: Final = pairs


@final
class Ready:
    """What a block applies without notes.

    Attributes:
        also: the parts of the session.
        pairs: the patches of the session, in order, and hookpatch's own.
        parts: those of hearers first.
        is_heard: True if hearers have parts.
    """

    __slots__ = ("also", "is_heard", "pairs", "parts")

    def __init__(self, also: Sequence[SessionPart], pairs: Pairs, parts: Sequence[Quick], is_heard: bool) -> None:
        self.also: Final = also
        self.pairs: Final = pairs
        self.parts: Final = parts
        self.is_heard: Final = is_heard


@final
class SessionPart:
    """Functions to begin and end a part with a session; all take the session's number.

    ``end`` may be called without ``begin``, and again. ``begin_again`` and ``end_again`` do the same on the fast path,
    or return False if the act needs a lock. ``quick`` returns the functions that do so without notes, or None.
    """

    __slots__ = ("begin", "begin_again", "end", "end_again", "quick")

    def __init__(
        self,
        begin: Callable[[int], object],
        end: Callable[[int], object],
        begin_again: Callable[[int], bool] = _needs_a_lock,
        end_again: Callable[[int], bool] = _needs_a_lock,
        quick: Callable[[], Quick | None] = lambda: None,
    ) -> None:
        self.begin: Final = begin
        self.end: Final = end
        self.begin_again: Final = begin_again
        self.end_again: Final = end_again
        self.quick: Final = quick
