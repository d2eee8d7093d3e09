"""What a process leaves behind when a report was asked for: one JSON file."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from hookpatch._session import report


def leave_at_exit(folder: str) -> None:
    """Write ``hookpatch-<pid>.json`` into the folder when this process ends."""
    atexit.register(_leave, folder)


def _leave(folder: str) -> None:
    """Write the report of all open sessions; a folder that cannot be written is a warning, never a failed run."""
    path = Path(folder, f"hookpatch-{os.getpid()}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(report().to_json() + "\n", encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"hookpatch: warning: no report left at {path}: {error.strerror}\n")
