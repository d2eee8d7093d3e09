"""What the command says of an error: one line with what to do now; before it the traceback, with ``--traceback``."""

from __future__ import annotations

import sys
import traceback
from typing import Any, Final

import typer

from hookpatch._stderr import EXIT_STATUS, say
from hookpatch.errors import HookpatchError, for_stderr

USAGE: Final = 2
UNFORESEEN: Final = 70  # EX_SOFTWARE of sysexits.h

_UsageError: Any = typer.BadParameter.__mro__[1]  # click's, of which typer has a copy of its own and exports no more


def tell(error: Exception, with_traceback: bool) -> int:
    """Say on stderr what went wrong; return the status to end with.

    Args:
        error: what the command has raised.
        with_traceback: True to print its traceback, too.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n")
        return USAGE
    if with_traceback:
        traceback.print_exception(error)
    said, status = _line(error)
    say(said, kind="error")
    return status


def _line(error: Any) -> tuple[str, int]:
    if isinstance(error, HookpatchError):
        return for_stderr(error), EXIT_STATUS
    if isinstance(error, _UsageError):
        command = error.ctx.command_path if error.ctx is not None else "hookpatch"
        return f"{error.format_message().rstrip('.')}; '{command} --help' shows how it is written", USAGE
    first = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}; 'hookpatch --traceback ...' shows where that comes from", UNFORESEEN
