"""Call the code of a patch or plugin: the code must not end the program, and each of its errors can be named.

os._exit raises no error, and no code runs after the call. So a guard replaces os._exit while the foreign code runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from sys import _getframe
from types import FrameType, ModuleType
from typing import Any, Final, ParamSpec, TypeVar, final

from hookpatch._bootstrap.interrupts import handler_codes, is_of_code

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@final
class ProcessEnd(BaseException):
    """Raised in foreign code in place of the end of the process. The text is the call, such as ``os._exit(0)``."""


@final
class CodeEnd(Exception):
    """Foreign code raised SystemExit or the like, or called os._exit. The text names the call or the error."""


def call_guarded(
    function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Call a function of a patch; raise CodeEnd in place of the end of the program.

    A KeyboardInterrupt and the error of a signal handler pass unchanged: they stop the program in plain sight.
    """
    guard = ExitGuard(_getframe())
    try:
        guard.begin()
        return function(*args, **kwargs)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        if not is_of_code(error):
            raise
        raise CodeEnd(f"{raised(error)}{text_of(error)}") from error
    finally:
        guard.end()


def raised(error: BaseException) -> str:
    """Return the act of foreign code in words: *raised ValueError*, *called os._exit(0)*."""
    cause = _cause(error)
    return f"called {cause}" if isinstance(cause, ProcessEnd) else f"raised {type(cause).__name__}"


def text_of(error: BaseException) -> str:
    """Return the text of a foreign error after a colon, empty without a text. A ``__str__`` that fails is named."""
    cause = _cause(error)
    if isinstance(cause, ProcessEnd):
        return ""
    try:
        text = call_guarded(str, cause)
    except Exception as failure:
        if not is_of_code(failure):
            raise
        text = f"its __str__ {raised(failure)}"
    return f": {text}" if text else ""


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, CodeEnd) and error.__cause__ is not None else error


@final
class ExitGuard:
    """Replaces os._exit while a frame runs foreign code, from ``begin`` to ``end``.

    Raises ProcessEnd for a call below the frame. Other threads, forks and signal handlers do end the process. The code
    may keep the guard as its ``_exit``: the kept guard raises while any guard is on.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame: FrameType | None = frame  # None after the end
        self._process: Final = os.getpid()
        self._originals: Final[dict[ModuleType, Callable[[int], Any]]] = {home: home._exit for home in _HOMES}

    def begin(self) -> None:
        """Replace os._exit."""
        _active.append(self)
        for home in _HOMES:
            home._exit = self

    def end(self) -> None:
        """Restore os._exit; leave a value that is foreign, or the guard of another thread."""
        self._frame = None
        if self in _active:
            _active.remove(self)
        for home in _HOMES:
            while isinstance(guard := home._exit, ExitGuard) and guard._frame is None:
                home._exit = guard._originals[home]

    def __call__(self, status: int) -> None:
        """End the process, or raise ProcessEnd."""
        if self._is_below(_getframe().f_back):
            raise ProcessEnd(f"os._exit({status})")
        self._originals[os](status)

    def _is_below(self, frame: FrameType | None) -> bool:
        """Return True if a frame was called by the frame of a guard, and not by a signal handler."""
        guarded = [guard._frame for guard in list(_active) if guard._process == os.getpid()]
        handlers = handler_codes() if guarded else ()
        while frame is not None and frame.f_code not in handlers:
            if any(frame is other for other in guarded):
                return True
            frame = frame.f_back
        return False


_HOMES: Final[tuple[Any, ...]] = os, import_module(os.name)  # os has taken over the function of posix or nt
_active: Final[list[ExitGuard]] = []  # the guards that are on, of all threads
