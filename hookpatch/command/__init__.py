"""The command line; the only package that imports typer and rich."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Final

import typer

from hookpatch import __version__, _selection
from hookpatch.command._check import check
from hookpatch.command._doctor import doctor
from hookpatch.command._error import tell
from hookpatch.command._explain import explain
from hookpatch.command._in_process import Program, run_program
from hookpatch.command._list import list_plugins
from hookpatch.command._lock import lock
from hookpatch.command._new import new
from hookpatch.command._of_plugin import WithPlugins
from hookpatch.command._plan import plan
from hookpatch.command._report import report
from hookpatch.command._run import RunCommand, run
from hookpatch.command._verify import verify
from hookpatch.command._why import why

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
        typer.echo(f"hookpatch {__version__}")
        raise typer.Exit


def _keep_traceback(context: typer.Context, asked: bool) -> None:
    context.ensure_object(SimpleNamespace).traceback = asked  # that of main


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
app.command("verify")(verify)
app.command("why")(why)
app.command("explain")(explain)
app.command("run", cls=RunCommand)(run)
app.command("new")(new)


def main() -> None:
    """Run the command, with the configuration of the current folder where none is named.

    Raises:
        SystemExit: with the status of the command, or of the program that it has run.
    """
    kept = SimpleNamespace(traceback=False)
    try:
        _selection.look_for_config()
        status = typer.main.get_command(app)(obj=kept, standalone_mode=False)
    except Program as program:
        words = program.words
    except Exception as error:
        raise SystemExit(tell(error, kept.traceback)) from None
    else:
        raise SystemExit(status)
    run_program(words)
