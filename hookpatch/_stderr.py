"""What we say on stderr, in one form (``hookpatch: error: what``), and the statuses that go with it.

Imported only when there is something to say: it may be at interpreter start, so it imports nothing that is not there
already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

EXIT_STATUS: Final = 78  # EX_CONFIG of sysexits.h: what was asked for cannot be had
CALLS_STATUS: Final = 70  # EX_SOFTWARE: it was had, and not called as often as it has to be


def of_this_process() -> str:
    """Return how a line names us in one of several processes."""
    return f"hookpatch[{os.getpid()}]"


def say(*what: object, kind: Literal["", "error", "warning"] = "", who: str = "hookpatch") -> None:
    """Write a line for each; nothing where there is no stderr, as in a service or after ``2>&-``.

    Args:
        *what: what is to be said.
        kind: the word before it.
        who: us; or us in one of several processes.
    """
    start = f"{who}: {kind}: " if kind else f"{who}: "
    if what and sys.stderr is not None:
        sys.stderr.write("".join(f"{start}{one}\n" for one in what))


def refusal(why: object, who: str = "hookpatch") -> SystemExit:
    """Say why a program does not have what it is to have; return what ends it."""
    say(why, kind="error", who=who)
    return SystemExit(EXIT_STATUS)
