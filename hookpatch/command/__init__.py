"""The command line. ``run`` is parsed here; typer is imported for all other commands. Rich prints what is no table."""

from __future__ import annotations

import io
import os
import sys
from types import SimpleNamespace
from typing import Any, Final

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.stderr import EXIT_STATUS, write_line
from hookpatch.errors import HookpatchError, UnknownCommand, for_stderr


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hookpatch.command._app import app

    return app


def main() -> None:
    """Run the command line. Reads the configuration in the current folder unless a variable names another.

    Raises:
        SystemExit: with the status of the command, or of the program that the command has run.
    """
    settings = SimpleNamespace(traceback=False)
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without Unicode shows escapes: no command ends for that
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        selection.look_for_config()
        words = sys.argv[1:]
        settings.traceback = words[:1] == ["--traceback"]
        words = words[settings.traceback :]
        if words[:1] == ["run"]:
            from hookpatch.command.run._run import run

            raise SystemExit(run(words[1:]))
        from hookpatch.command._app import run_app

        status = run_app(settings)
    except Exception as error:
        raise SystemExit(_write_error(error, settings.traceback)) from None
    raise SystemExit(status)


def _open_closed_streams() -> None:
    """Open the null device in place of each closed standard stream; a program under ``run`` has it closed as before."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


USAGE: Final = 2
_TAKE_NAMES: Final = ("plan", "lock", "check")
UNFORESEEN: Final = 70  # EX_SOFTWARE of sysexits.h


def _write_error(error: Any, with_traceback: bool) -> int:
    """Write an error to stderr, with its traceback if asked for; return the exit status."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n")
        return USAGE
    if with_traceback:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, UnknownCommand):
        message, status = for_stderr(error), USAGE
    elif isinstance(error, HookpatchError):
        message, status = for_stderr(error), EXIT_STATUS
    elif hasattr(error, "format_message"):  # of run, or of the copy of click that typer has, and does not export
        typed = [word for word in sys.argv[1:] if not word.startswith("-")]  # an option without a value has no context
        context = getattr(error, "ctx", None)
        words = " ".join(["hookpatch", *typed[:1]]) if context is None else context.command_path
        hint = f"'{words} --help' shows how it is written"
        if getattr(error, "option_name", "") in ("-p", "--plugin") and words.rpartition(" ")[2] in _TAKE_NAMES:
            hint = f"name the plugins without it: '{words} NAME'"
        elif words == "hookpatch" and getattr(error, "option_name", "") in (
            "-p",
            "--plugin",
            "-o",
            "--option",
            "--report",
        ):
            hint = f"write {error.option_name} behind the command, as in 'hookpatch run {error.option_name} ...'"
        message, status = f"{error.format_message().rstrip('.')}; {hint}", USAGE
    else:
        first = str(error).partition("\n")[0]
        message = f"{type(error).__name__}: {first}; 'hookpatch --traceback ...' shows where that comes from"
        status = UNFORESEEN
    write_line(message, kind="error")
    return status
