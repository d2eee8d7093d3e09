"""Do one job in a child process, and read the reply or how the child process ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from hookpatch_torchscript._runtimes.jobs.job import Difference, Job, Refusal, Reply, Trial

_CHILD: Final = "hookpatch_torchscript._runtimes"  # its __main__ does a job


def run_job(job: Job) -> Reply:
    """Do a job in a child process; the output of the process is read only after a crash."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as printed:
        path = Path(folder) / "reply.json"
        words = [sys.executable, "-P", "-m", _CHILD, json.dumps(asdict(job)), str(path)]
        completed = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, check=False
        )
        if completed.returncode == 0 and path.is_file():
            return _read(json.loads(path.read_text(encoding="utf-8")))
        printed.seek(0)
        lines = printed.read().decode(errors="replace").strip().splitlines()
        return Reply(Trial("failed", ended(completed.returncode, lines[-1] if lines else "")), {})


def ended(status: int, last: str) -> str:
    """Return how a process without a reply ended.

    Args:
        status: the exit status, negative for a signal.
        last: the last line of the output.
    """
    if status < 0:
        name = signal.Signals(-status).name if -status in {*signal.Signals} else f"signal {-status}"
        hint = ": the memory may have run out" if name == "SIGKILL" else ""
        return f"the process was ended by {name}{hint}"
    return f"the process ended with status {status}{f': {last}' if last else ''}"


def _read(answer: dict[str, Any]) -> Reply:
    outcome = answer["outcome"]
    if "of" in outcome:
        return Reply(Refusal(**outcome), answer["machine"])
    gap = outcome.pop("difference")
    outcome["times"] = tuple(outcome["times"])
    return Reply(Trial(**outcome, difference=None if gap is None else Difference(**gap)), answer["machine"])
