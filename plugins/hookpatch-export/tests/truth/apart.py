"""Run a call in a child process, so that a crash or a hang ends the child process alone."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any


def apart(call: Callable[[], Any], seconds: float) -> Any:
    """Return the result of a call in a forked process.

    Raises:
        Lost: the process died or took longer than the seconds.
    """
    context = multiprocessing.get_context("fork")  # torch is imported already, and no thread runs
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(call, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise Lost(f"took longer than {seconds:g} s")
        return receiver.recv()
    except EOFError:
        process.join()
        raise Lost(f"the process ended with status {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()


class Lost(Exception):
    """Nothing came back, with the reason."""


def _child(call: Callable[[], Any], to: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno() if hasattr(sys.stdout, "fileno") else 1)
    os.dup2(nowhere, 2)
    to.send(call())
    to.close()
    os._exit(0)  # skip the parent's cleanup, which is inherited by the child process
