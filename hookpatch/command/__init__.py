"""The command line. No other package imports typer or rich."""

from __future__ import annotations

import io
import sys
import traceback
from importlib.metadata import version
from types import SimpleNamespace
from typing import Annotated, Any, Final

import typer

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.stderr import EXIT_STATUS, write_line
from hookpatch.command._check import check, lock
from hookpatch.command._doctor import doctor
from hookpatch.command._explain import explain
from hookpatch.command._list import list_plugins
from hookpatch.command._new import new
from hookpatch.command._plan import plan
from hookpatch.command._plugin_commands import WithPlugins
from hookpatch.command._report import report
from hookpatch.command._run import RunCommand, run
from hookpatch.command._why import why
from hookpatch.command.audit._adopt import adopt
from hookpatch.command.audit._audit import AuditCommand, audit
from hookpatch.errors import HookpatchError, for_stderr

app: Final = typer.Typer(
    name="hookpatch",
    help="Patches for code you cannot edit: named, installable, reversible.",
    epilog="A plugin's own commands are under its name: hookpatch onnx diff.",
    cls=WithPlugins,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hookpatch {version('hookpatch')}")
        raise typer.Exit


def _keep_traceback(context: typer.Context, asked: bool) -> None:
    context.ensure_object(SimpleNamespace).traceback = asked  # main() passes the object


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Print the traceback of an error.", callback=_keep_traceback, is_eager=True),
    ] = False,
) -> None:
    pass


app.command("list")(list_plugins)
app.command("plan")(plan)
app.command("lock")(lock)
app.command("check")(check)
app.command("doctor")(doctor)
app.command("report")(report)
app.command("why")(why)
app.command("explain")(explain)
app.command("run", cls=RunCommand)(run)
app.command("new")(new)
app.command("audit", cls=AuditCommand)(audit)
app.command("adopt")(adopt)


def main() -> None:
    """Run the command line. Reads the configuration in the current folder unless a variable names another.

    Raises:
        SystemExit: with the status of the command, or of the program that the command has run.
    """
    settings = SimpleNamespace(traceback=False)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without Unicode shows escapes: no command ends for that
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        selection.look_for_config()
        status = typer.main.get_command(app)(obj=settings, standalone_mode=False)
    except Exception as error:
        raise SystemExit(_write_error(error, settings.traceback)) from None
    raise SystemExit(status)


USAGE: Final = 2
UNFORESEEN: Final = 70  # EX_SOFTWARE of sysexits.h

_UsageError: Any = typer.BadParameter.__mro__[1]  # click's class; typer has a copy of click and does not export it


def _write_error(error: Any, with_traceback: bool) -> int:
    """Write an error to stderr, with its traceback if asked for; return the exit status."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error}\n")
        return USAGE
    if with_traceback:
        traceback.print_exception(error)
    if isinstance(error, HookpatchError):
        message, status = for_stderr(error), EXIT_STATUS
    elif isinstance(error, _UsageError):
        command = error.ctx.command_path if error.ctx is not None else "hookpatch"
        message, status = f"{error.format_message().rstrip('.')}; '{command} --help' shows how it is written", USAGE
    else:
        first = str(error).partition("\n")[0]
        message = f"{type(error).__name__}: {first}; 'hookpatch --traceback ...' shows where that comes from"
        status = UNFORESEEN
    write_line(message, kind="error")
    return status
