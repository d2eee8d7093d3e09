"""Call functions of hookpatch in a throwaway child process, in which the code of a plugin may do any harm.

The output of the child process is dropped. A child process that ends itself, or takes too long, costs one call: the
next calls are made in another child process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, Final, final

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.files import current_folder
from hookpatch._bootstrap.json import parsed, written

LIMIT: Final = 30.0  # seconds for a call
# The standard library's json is imported before the user's path is set: a file of the user may be named json.py.
_CHILD: Final = (
    "import json, sys; task = json.loads(sys.stdin.buffer.readline()); sys.path[:] = task['path']; "
    "from hookpatch._processes.aside import end_with_parent; end_with_parent(); from {module} import main; main(task)"
)


def start_child(module: str, task: Mapping[str, Any], stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a throwaway child process, which leads a process group and ends with this process, even with a killed one.

    Args:
        module: the module with the function ``main``, called with the task.
        task: JSON values; ``path`` is the ``sys.path`` of the user.
        stdout: as for ``subprocess.Popen``.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as for hookpatch run
    child = subprocess.Popen(
        [sys.executable, *flags, "-P", "-c", _CHILD.format(module=module)],
        stdin=subprocess.PIPE,  # closed by the system when this process ends
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=environment.without_ours(),
        start_new_session=True,
    )
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.write(written(task).encode() + b"\n")
        child.stdin.flush()
    return child


def end_with_parent() -> None:
    """Let the system end the processes of this group, by a signal, when the parent process has closed the pipe."""
    pipe = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # code that reads input finds the end of a file
    if hasattr(os, "O_ASYNC"):  # not on Windows
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(pipe, fcntl.F_SETFL, os.O_ASYNC)


@final
class Ended(Exception):
    """The child process ended before the call; the text says how, such as *ended with status 0*."""


def results(calls: Sequence[tuple[str, Any]], limit: float = LIMIT) -> Iterator[Any]:
    """Yield the result of each call: JSON values, or an ``Ended`` for a call without a result.

    Args:
        calls: the address of a function, ``module:name``, and its argument, a JSON value.
        limit: the seconds that a call may take.
    """
    remaining = list(calls)
    while remaining:
        task = {
            "path": [*map(os.fspath, sys.path)],
            "folder": current_folder(),
            "variables": environment.hookpatch_variables(),
            "calls": remaining,
        }
        with _Child(task) as child:
            while remaining and (line := child.line(limit)) is not None:
                yield line["result"]
                remaining.pop(0)
        if remaining:
            yield Ended(child.end)
            remaining.pop(0)


class _Child:
    """A child process, and the lines written by the process. At the end all processes of its session are killed."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self._process: Final = start_child(__name__, task, subprocess.PIPE)
        assert self._process.stdout is not None
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._reader: Final = Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()
        self.end = ""

    def line(self, limit: float) -> Any:
        """Return the next line; None if the process ends earlier, or takes longer than the limit."""
        try:
            text = self._lines.get(timeout=limit)
        except Empty:
            self.end = f"took longer than {limit:g} s"
            return None
        with suppress(ValueError):
            return parsed(text.decode())
        return None

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *failure: object) -> None:
        if not self.end:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._reader.join(1)  # a process outside of the session may hold the pipe
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.end = self.end or how_it_ended(code)


def how_it_ended(code: int) -> str:
    """Return a return code of ``subprocess`` in words."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def _read(pipe: IO[bytes], lines: SimpleQueue[bytes]) -> None:
    with pipe:
        for line in pipe:
            lines.put(line)
    lines.put(b"")


def main(task: Mapping[str, Any]) -> None:
    """Make the calls in this throwaway process. Each call begins with the path and the folder of the user."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)  # printed output is dropped
        environment.set_variables(task["variables"])
        for address, argument in task["calls"]:
            module, _, name = address.partition(":")
            function = getattr(import_module(module), name)
            sys.path[:] = task["path"]
            if task["folder"] is not None:
                os.chdir(task["folder"])
            lines.write(written({"result": function(argument)}) + "\n")
            lines.flush()
