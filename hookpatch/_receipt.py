"""What a process leaves behind at its end: one JSON file when a report was asked for, calls when they were counted."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from hookpatch._session import Session, report


def leave_at_exit(folder: str) -> None:
    """Write ``hookpatch-<pid>.json`` into the folder when this process ends."""
    atexit.register(_leave, folder)


def tell_calls_at_exit(session: Session) -> None:
    """Say on stderr what the patches of a session were called, when this process ends."""
    atexit.register(_tell_calls, session)


def _tell_calls(session: Session) -> None:
    """Write a line for each patch that was counted, and one for each that was required and never called."""
    start = f"hookpatch[{os.getpid()}]"
    counted = [patch for patch in session.report() if patch.calls]
    lines = [f"{start}: {patch.target} ({patch.plugin}): {patch.calls_in_words}" for patch in counted]
    lines += [f"{start}: warning: {said}" for said in session.never_called()]
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def _leave(folder: str) -> None:
    """Write the report of all open sessions; a folder that cannot be written is a warning, never a failed run."""
    path = Path(folder, f"hookpatch-{os.getpid()}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report().to_json() + "\n", encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"hookpatch: warning: no report left at {path}: {error.strerror}\n")
