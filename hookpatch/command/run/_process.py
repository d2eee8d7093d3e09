"""The process that runs the program of ``hookpatch run``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap.program import SITECUSTOMIZE, has_startup_file
from hookpatch._bootstrap.stderr import CALLS_STATUS

_PASSED_ON = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)]


def command_of(target: Sequence[str]) -> list[str]:
    """Return the command that runs a program with the current interpreter and its flags."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # what multiprocessing uses
    return [sys.executable, *flags, *target]


def status_of(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program; return its exit status, 128 + n after signal n, 70 in place of 0 if a required patch missed."""
    import tempfile  # imported here: most programs replace this process, and need no folder
    from threading import Thread

    with tempfile.TemporaryDirectory(prefix="hookpatch-") as folder:
        note = os.path.join(folder, "calls_missed")
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)  # C code writes the number at once; a Python handler waits for child.wait()
        for number in (*_PASSED_ON, signal.SIGINT):  # the terminal sends SIGINT to the program, too
            signal.signal(number, lambda *_: None)  # no SIG_IGN: the program would inherit it
        child = subprocess.Popen(command, env={**environment, _environment.CALLS_MISSED: note})
        Thread(target=_pass_on, args=(read, child), daemon=True).start()
        status = child.wait()
        if status < 0:
            return 128 - status
        return status or (CALLS_STATUS if os.path.exists(note) else 0)


def _pass_on(numbers: int, child: subprocess.Popen[bytes]) -> None:
    """Send a child each signal whose number, a byte, can be read from a file descriptor."""
    while number := os.read(numbers, 1):
        if number[0] in _PASSED_ON:
            child.send_signal(number[0])


def with_startup(environment: dict[str, str]) -> dict[str, str]:
    """Add our sitecustomize to an environment without the start-up file.

    The file is missing if hookpatch was installed with ``--target``, or is only on PYTHONPATH.
    """
    if has_startup_file():
        return environment
    folders = (SITECUSTOMIZE, environment.get("PYTHONPATH", ""))
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
