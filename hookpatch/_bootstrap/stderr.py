"""Write messages to stderr in one form (``hookpatch: error: ...``), and define the exit statuses of errors."""

from __future__ import annotations

import os
import sys

from hookpatch._bootstrap.interrupts import is_interrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Literal

EXIT_STATUS: Final = 78  # EX_CONFIG of sysexits.h: a requested patch cannot be applied
INTERRUPTED: Final = 130  # Ctrl-C, as in shells
CALLS_STATUS: Final = 70  # EX_SOFTWARE: an applied patch was called less often than required
_SHORT: Final = 1_000  # characters of a line; ``one_line`` cuts lines of 4,000


def of_this_process() -> str:
    """Return the name of hookpatch for a line of this process among several processes."""
    return f"hookpatch[{os.getpid()}]"


def write_line(*messages: object, kind: Literal["", "error", "warning"] = "", speaker: str = "hookpatch") -> None:
    """Write a line for each message, after a name and a kind; nothing without a stderr that takes text."""
    start = f"{speaker}: {kind}: " if kind else f"{speaker}: "
    if messages and sys.stderr is not None:
        lines = [str(message) for message in messages]
        if not all(line.isprintable() and len(line) < _SHORT for line in lines):
            lines = [*map(_escape(), lines)]
        text = "".join(f"{start}{line}\n" for line in lines)
        try:
            _write(text)
        except UnicodeEncodeError:  # of a file that the program has put in the place of stderr
            sys.stderr.write(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError) as error:  # a full disk, a closed pipe or file
            if is_interrupt(error):
                raise


def _escape() -> Callable[[str], str]:
    """Return the function that escapes a line, imported for lines with control characters and for long lines alone."""
    try:
        from hookpatch.errors import one_line
    except (ImportError, OSError, RecursionError) as error:  # files or the path are used up
        if is_interrupt(error):
            raise
        return ascii
    return one_line


def _write(text: str) -> None:
    """Write a text to stderr. Python's own stderr gets the text past its buffer.

    A buffer would keep a text that a full disk refuses. Python would try again at its end, and exit with status 120.
    """
    stream = sys.stderr
    raw = getattr(getattr(stream, "buffer", None), "raw", None) if stream is sys.__stderr__ else None
    if raw is None:  # a file of the program, or a stderr without a buffer
        stream.write(text)
    else:
        stream.flush()
        raw.write(text.replace("\n", os.linesep).encode(stream.encoding, "backslashreplace"))


def call_at_end(function: Callable[..., object], *args: object) -> None:
    """Call a function at the end of the process; an error is a line: the program may have used up anything."""
    try:
        function(*args)
    except Exception as error:
        if is_interrupt(error):
            raise
        warn_of_end(error)


def warn_of_end(error: Exception) -> None:
    """Write why the end of this process is not reported."""
    why = f"{type(error).__name__}: {error}"
    write_line(f"the end of the process is not reported: {why}", kind="warning", speaker=of_this_process())


def refusal(why: object, speaker: str = "hookpatch") -> SystemExit:
    """Write why the program cannot run as requested; return the exception that ends the program."""
    write_line(why, kind="error", speaker=speaker)
    from hookpatch._bootstrap.program import is_worker  # most processes are refused nothing

    if is_worker(sys.orig_argv):
        write_line(_AGAIN, speaker=speaker)
    return SystemExit(EXIT_STATUS)


_AGAIN: Final = (
    "multiprocessing.Pool replaces each ended worker, for ever: end the program with Ctrl-C, or use "
    "ProcessPoolExecutor, which raises BrokenProcessPool"
)
