"""``hookpatch doctor``: is hookpatch on in this Python, what would each plugin do, what is wrong and how to mend it."""

from __future__ import annotations

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._doctor import findings


def doctor() -> None:
    """Say whether hookpatch is on here, and what is wrong and its mend.

    And what each plugin would do.

    Applies nothing, but imports the installed plugins. Ends with status 1 if something is wrong.

    Example: hookpatch doctor
    """
    console = Console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("looked at", no_wrap=True)
    table.add_column("found", overflow="fold")
    wrong = 0
    for finding in findings():
        wrong += finding.mend is not None
        mark = Text("ok", style="green") if finding.mend is None else Text("no", style="bold red")
        found = Text(finding.found)
        if finding.mend is not None:
            found.append(f"\n-> {finding.mend}", style="yellow")
        table.add_row(mark, finding.about, found)
    console.print(table)
    console.print(f"{wrong} to mend" if wrong else "all is well")
    if wrong:
        raise typer.Exit(1)
