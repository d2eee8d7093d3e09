"""``hookpatch doctor``: is hookpatch on in this Python, what would each plugin do, what is wrong and how to mend it."""

from __future__ import annotations

import json as _json
from collections.abc import Iterable

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._doctor import Finding, findings
from hookpatch.command._arguments import AsJson


def doctor(json: AsJson = False) -> None:
    """Say whether hookpatch is on here, and what is wrong and its mend.

    And what each plugin would do, and where each setting comes from.

    Applies nothing, but imports the installed plugins. Ends with status 1 if something is wrong.

    Example: hookpatch doctor
    """
    found = list(findings())
    wrong = sum(finding.mend is not None for finding in found)
    if json:
        content = {"status": int(wrong > 0), "findings": [finding._asdict() for finding in found]}
        typer.echo(_json.dumps(content, indent=2))
    else:
        _print(Console(), found)
        typer.echo(f"{wrong} to mend" if wrong else "all is well")
    if wrong:
        raise typer.Exit(1)


def _print(console: Console, found: Iterable[Finding]) -> None:
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("looked at", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in found:
        mark = Text("ok", style="green") if finding.mend is None else Text("mend", style="bold red")
        said = Text(finding.found)
        if finding.mend is not None:
            said.append(f"\n-> {finding.mend}", style="yellow")
        table.add_row(mark, finding.about, said)
    console.print(table)
