"""``hookpatch explain``: what an error or warning means, and what to do now."""

from __future__ import annotations

import json as _json
from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from hookpatch._messages import Message, message, messages
from hookpatch.command._arguments import AsJson


def _names(incomplete: str) -> list[tuple[str, str]]:
    return [(one.name, one.meaning) for one in messages() if one.name.lower().startswith(incomplete.lower())]


def explain(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of an error or warning; none for a list.", autocompletion=_names)
    ] = "",
    json: AsJson = False,
) -> None:
    """Say what an error or warning means, and what to do now.

    Those of hookpatch, and those of the installed plugins.

    Example: hookpatch explain UnknownPlugin
    """
    if json:
        found = [message(name)] if name else messages()
        typer.echo(_json.dumps({"messages": [{**one._asdict(), "meaning": one.meaning} for one in found]}, indent=2))
        return
    console = Console()
    if name:
        _print(console, message(name))
    else:
        _print_all(console)


def _print(console: Console, found: Message) -> None:
    if console.is_terminal:
        title = Text(found.name, style="bold") + Text(f"  {found.distribution}", style="dim")
        console.print(title, Text(), Markdown(found.text, hyperlinks=False), sep="\n")
    else:
        typer.echo(f"{found.name}  {found.distribution}\n\n{found.text}")


def _print_all(console: Console) -> None:
    for distribution, of_it in groupby(messages(), key=_distribution):
        table = Table.grid(padding=(0, 2), pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for one in of_it:
            table.add_row(one.name, Text(one.meaning.replace("`", "")))
        console.print(Text(distribution, style="bold"), table, "")


def _distribution(one: Message) -> str:
    return one.distribution
