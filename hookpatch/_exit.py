"""The end of a program that the environment patched: what is said then, and its status.

The one place that ends a process past the interpreter. A program's status is not known before its very end, and nobody
can change it from inside: so it is asked of a copy of the process that ends in its place.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

from hookpatch import _environment, _selection
from hookpatch._ledger import Key
from hookpatch._missed import never_bound, too_few_calls
from hookpatch._receipts import receipts
from hookpatch._session import Session
from hookpatch._stderr import CALLS_STATUS, of_this_process, say
from hookpatch.errors import CallsError, SettingError, for_stderr

_OFF: Final = ("waiting", "unused", "skipped", "failed")
_PATIENCE: Final = 10.0  # seconds


def tell_at_end(session: Session) -> None:
    """Say which patches were never bound, or called less often than they have to be; the status is 70 for these.

    With a folder for reports those of all processes of the run count, as far as they have left them.
    """
    ends = _selection.on_error() == "exit"
    if ends and session.has_failed:
        return  # that has ended the program, and was said
    folder = _environment.report_folder()
    elsewhere = _elsewhere(folder) if folder is not None else {}
    missed = too_few_calls(session.entries, elsewhere)
    say(*never_bound(session.entries, elsewhere), kind="warning", who=of_this_process())
    say(
        *(for_stderr(CallsError([said])) for said in missed), kind="error" if ends else "warning", who=of_this_process()
    )
    if ends and missed:
        _end_with(CALLS_STATUS)


def _elsewhere(folder: str) -> dict[Key, int]:
    """Return which patches were applied in other processes of the run, and how many calls they received there."""
    calls: Counter[Key] = Counter()
    with suppress(SettingError):  # nothing could be written
        for process in receipts(folder, _environment.report_root()[1]):
            is_me = (process.host, process.pid) == (_environment.host(), os.getpid())
            for patch in process.patches if not is_me else ():
                if patch.state not in _OFF:
                    calls[patch.plugin, patch.distribution, patch.verb, patch.target] += sum(
                        (patch.calls or {}).values()
                    )
    return dict(calls)


def _end_with(status: int) -> None:
    """End this process as it would end, but with this status where it would end with 0."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or broken: its end will tell
            stream.flush()
    copy = _copy_of_this_process()
    if copy is None:
        os._exit(status)  # no way to learn the program's own: it has ended without an error
    if copy == 0:
        return  # this is the copy: it goes on to its end
    ended = _status_of(copy)
    if ended is not None and os.WIFSIGNALED(ended):
        signal.signal(os.WTERMSIG(ended), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(ended))
    os._exit(os.WEXITSTATUS(ended) or status if ended is not None else status)


def _copy_of_this_process() -> int | None:
    """Fork; return the copy's number here and 0 in the copy, None where that cannot be.

    By the C library: from Python 3.12 on os.fork refuses at this time, and those who hear of forks are not to hear of
    this one. The copy runs what is left of the interpreter's end, and leaves out what C libraries do after that, which
    may wait for threads that it does not have.
    """
    try:
        import ctypes

        library: Any = ctypes.PyDLL(None)
        library.fflush(None)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        copy = int(library.fork())
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return None
    if copy == 0:
        with suppress(AttributeError):  # not in every C library
            library.on_exit(ctypes.cast(library._exit, ctypes.c_void_p), None)
    return copy if copy >= 0 else None


def _status_of(copy: int) -> int | None:
    """Return how the copy ended, None if it did not in time."""
    until = monotonic() + _PATIENCE
    while monotonic() < until:
        with suppress(OSError):
            ended, status = os.waitpid(copy, os.WNOHANG)
            if ended:
                return status
        sleep(0.005)
    with suppress(OSError):
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)
    return None
