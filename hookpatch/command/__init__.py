"""The command line; the only package that imports typer and rich."""

from __future__ import annotations

import sys

import typer

from hookpatch.command._list import list_plugins
from hookpatch.command._run import RunCommand, run
from hookpatch.errors import HookpatchError

EXIT_STATUS = 78  # EX_CONFIG of sysexits.h: what was asked for cannot be had

app = typer.Typer(
    name="hookpatch",
    help="Patches for code you cannot edit: named, installable, reversible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("list")(list_plugins)
app.command("run", cls=RunCommand)(run)


def main() -> None:
    """Run the command; an error of ours is one line on stderr and status 78."""
    try:
        app()
    except HookpatchError as error:
        sys.stderr.write(f"hookpatch: error: {error}\n")
        raise SystemExit(EXIT_STATUS) from None
