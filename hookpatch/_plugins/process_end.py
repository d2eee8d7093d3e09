"""Notice code of a plugin that ends the process by os._exit: Python itself raises no error, and runs no more code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, final

from hookpatch._bootstrap.interrupts import handler_codes


@final
class ProcessEnd(BaseException):
    """Raised in a plugin in place of the end of the process. The text is the call, such as ``os._exit(0)``."""


@final
class ExitGuard:
    """Stands for os._exit while a frame runs code of a plugin, from ``begin`` to ``end``.

    Raises ProcessEnd for a call below the frame. Other threads, forks and signal handlers do end the process.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame: FrameType | None = frame  # None after the end
        self._process: Final = os.getpid()
        self._original: Callable[[int], Any] = os._exit

    def begin(self) -> None:
        """Replace os._exit."""
        os._exit = self  # type: ignore[assignment]  # typed as a function that never returns

    def end(self) -> None:
        """Restore os._exit; leave a value that is foreign, or the guard of another thread."""
        self._frame = None
        while isinstance(guard := os._exit, ExitGuard) and guard._frame is None:
            os._exit = guard._original  # type: ignore[assignment]  # typed as a function that never returns

    def __call__(self, status: int) -> None:
        """End the process, or raise ProcessEnd."""
        if os.getpid() == self._process and self._is_below(sys._getframe(1)):
            raise ProcessEnd(f"os._exit({status})")
        self._original(status)

    def _is_below(self, frame: FrameType | None) -> bool:
        """Return True if a frame was called by the frame of the guard, and not by a signal handler."""
        handlers = handler_codes()
        while frame is not None and frame.f_code not in handlers:
            if frame is self._frame:
                return True
            frame = frame.f_back
        return False
