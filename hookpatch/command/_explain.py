"""``hookpatch explain``: print the meaning and the remedy of an error or warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._bootstrap.installed import installed
from hookpatch.command._app import AsJson, print_json, print_text
from hookpatch.command._tables import output
from hookpatch.errors import UnknownMessage


def _names(incomplete: str) -> list[tuple[str, str]]:
    return [(entry.name, entry.meaning) for entry in messages() if entry.name.lower().startswith(incomplete.lower())]


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The name of an error or warning; without a name all are listed.",
            autocompletion=_names,
        ),
    ] = "",
    json: AsJson = False,
) -> None:
    """Explain an error or warning, with its remedy.

    Knows the errors and warnings of hookpatch and of the installed plugins.

    Example: hookpatch explain UnknownPlugin
    """
    if json:
        chosen = [message(name)] if name else messages()
        print_json({"messages": [{**entry._asdict(), "meaning": entry.meaning} for entry in chosen]})
        return
    console = output()
    if name:
        _print(console, message(name))
    else:
        _print_list(console)


def _print(console: Console, entry: Message) -> None:
    if console.is_terminal:
        from rich.markdown import Markdown  # here: a third of the command's time

        title = Text(entry.name, style="bold") + Text(f"  {entry.distribution}", style="dim")
        console.print(title, Text(), Markdown(entry.text, hyperlinks=False), sep="\n")
    else:
        print_text(f"{entry.name}  {entry.distribution}\n\n{entry.text}")


def _print_list(console: Console) -> None:
    for distribution, entries in groupby(messages(), key=attrgetter("distribution")):
        if not console.is_terminal:  # rich would fill each line with spaces
            rows = list(entries)
            width = max(len(entry.name) for entry in rows)
            lines = [f"{entry.name:{width}}  {entry.meaning.replace('`', '')}" for entry in rows]
            print_text("\n".join([distribution, *lines, ""]))
            continue
        table = Table.grid(padding=(0, 2), pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for entry in entries:
            table.add_row(entry.name, Text(entry.meaning.replace("`", "")))
        console.print(Text(distribution, style="bold"), table, "")


_HERE = Path(__file__).parents[1]


class Message(NamedTuple):
    """The documentation of one error or warning."""

    name: str  # of the class
    distribution: str
    text: str  # the section of messages.md without the heading

    @property
    def meaning(self) -> str:
        """Return the first sentence."""
        first = " ".join(self.text.partition("\n\n")[0].split())
        return re.split(r"(?<=\.) ", first)[0]


def messages() -> list[Message]:
    """Return the documented errors and warnings of hookpatch, then of the plugins by distribution."""
    pages = {"hookpatch": _HERE / "messages.md"}
    if not pages["hookpatch"].exists():  # an editable install has no copy of the page
        pages["hookpatch"] = _HERE.parent / "docs" / "messages.md"
    for plugin in sorted(installed(), key=attrgetter("distribution")):
        if plugin.distribution not in pages and (page := _page_beside(plugin.module)) is not None:
            pages[plugin.distribution] = page
    return [message for distribution, page in pages.items() for message in _sections(distribution, page)]


def message(name: str) -> Message:
    """Return the documentation of an error or warning by its class's name, also with a module or in lower case."""
    entries = messages()
    for entry in entries:
        if entry.name.lower() == name.rpartition(".")[2].lower():
            return entry
    raise UnknownMessage(name, [entry.name for entry in entries])


def _page_beside(module: str) -> Path | None:
    try:
        spec = find_spec(module.partition(".")[0])  # imports nothing: the name has no dots
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    return next((page for folder in folders or () if (page := Path(folder) / "messages.md").exists()), None)


def _sections(distribution: str, page: Path) -> Iterator[Message]:
    parts = re.split(r"^## (\w+)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield Message(name, distribution, text.strip())
