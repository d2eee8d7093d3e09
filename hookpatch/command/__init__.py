"""The command line; the only package that imports typer and rich."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hookpatch import __version__
from hookpatch._selection import EXIT_STATUS
from hookpatch.command._check import check
from hookpatch.command._doctor import doctor
from hookpatch.command._in_process import Program, run_program
from hookpatch.command._list import list_plugins
from hookpatch.command._lock import lock
from hookpatch.command._of_plugin import WithPlugins
from hookpatch.command._plan import plan
from hookpatch.command._report import report
from hookpatch.command._run import RunCommand, run
from hookpatch.command._verify import verify
from hookpatch.errors import HookpatchError

app = typer.Typer(
    name="hookpatch",
    help="Patches for code you cannot edit: named, installable, reversible. "
    "A plugin's own commands are under its name: hookpatch onnx diff.",
    cls=WithPlugins,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hookpatch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
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
app.command("run", cls=RunCommand)(run)


def main() -> None:
    """Run the command; an error of ours is one line on stderr and status 78."""
    try:
        app()
    except HookpatchError as error:
        sys.stderr.write(f"hookpatch: error: {error}\n")
        raise SystemExit(EXIT_STATUS) from None
    except Program as program:
        words = program.words
    run_program(words)
