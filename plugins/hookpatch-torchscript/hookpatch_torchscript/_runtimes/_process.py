"""One job in a fresh process: what it tells, or how it ended without a word."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hookpatch_torchscript._runtimes._job import Difference, Job, Refusal, Reply, Trial


def run(job: Job) -> Reply:
    """Do a job in a process of its own; what it prints is read only if it crashes."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as printed:
        path = Path(folder) / "reply.json"
        words = [sys.executable, "-m", __package__, json.dumps(asdict(job)), str(path)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 0 and path.is_file():
            return _read(json.loads(path.read_text(encoding="utf-8")))
        printed.seek(0)
        lines = printed.read().decode(errors="replace").strip().splitlines()
        return Reply(Trial("failed", ended(done.returncode, lines[-1] if lines else "")), {})


def ended(status: int, last: str) -> str:
    """Return how a process ended that told nothing.

    Args:
        status: its exit status; that of a signal is negative.
        last: the last line that it printed.
    """
    if status < 0:
        name = signal.Signals(-status).name if -status in {*signal.Signals} else f"signal {-status}"
        more = ": the memory may have run out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{more}"
    return f"its process ended with status {status}{f': {last}' if last else ''}"


def _read(told: dict[str, Any]) -> Reply:
    outcome = told["outcome"]
    if "of" in outcome:
        return Reply(Refusal(**outcome), told["machine"])
    found = outcome.pop("difference")
    outcome["times"] = tuple(outcome["times"])
    return Reply(Trial(**outcome, difference=None if found is None else Difference(**found)), told["machine"])
