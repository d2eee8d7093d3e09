"""``hookpatch list``: the installed plugins, and whether they fit what is installed."""

from __future__ import annotations

import json as _json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch import _selection
from hookpatch._discovery import Installed, installed
from hookpatch._host import Host
from hookpatch._ledger import Asked
from hookpatch._patch import Patch
from hookpatch._release import release_of
from hookpatch._verdict import by_version
from hookpatch.command._arguments import AsJson
from hookpatch.errors import HookpatchError, NotAllowed, OptionsError


class _Row(NamedTuple):
    """What is told of a plugin; ``status`` is one of the words of ``_STYLES``."""

    name: str
    distribution: str
    version: str
    description: str
    status: str
    reason: str | None
    patches: list[dict[str, str]]


_STYLES: Final = {
    "fits": "green",
    "commands": "green",
    "needs options": "",
    "not needed": "yellow",
    "does not fit": "red",
    "not allowed": "yellow",
    "broken": "red",
}


def list_plugins(json: AsJson = False) -> None:
    """List the installed plugins, and whether they fit.

    What each does, where it comes from, what it patches.

    Example: hookpatch list
    """
    rows = [_row(plugin) for plugin in installed()]
    if json:
        typer.echo(_json.dumps({"plugins": [row._asdict() for row in rows]}, indent=2))
    elif rows:
        _print(Console(), rows)
    else:
        typer.echo("No plugins are installed. They come as distributions, such as hookpatch-onnxsim.")


def _print(console: Console, rows: Iterable[_Row]) -> None:
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("plugin", no_wrap=True)
    table.add_column("what it does, from, and where", overflow="fold")
    table.add_column("fits", max_width=26)
    for row in rows:
        targets = [Text(" ".join([patch["target"], _in_brackets(patch)]), style="cyan") for patch in row.patches]
        origin = Text(f"{row.distribution} {row.version}", style="dim")
        said = row.reason or {"fits": "yes"}.get(row.status, row.status)
        table.add_row(
            Text(row.name, style="bold"),
            Text("\n").join([Text(row.description), origin, *targets]),
            Text(row.status if row.status == "broken" else said, style=_STYLES[row.status]),
        )
    console.print(table)


def _in_brackets(patch: Mapping[str, str]) -> str:
    return f"({patch['release']})" if patch["release"] else ""


def _row(installed: Installed) -> _Row:
    host, head = Host(), (installed.name, installed.distribution, installed.version)
    try:
        plugin = host.plugin(installed, "hookpatch list")
    except NotAllowed as error:  # not even its description is known: that is in its module
        return _Row(*head, str(error), "not allowed", None, [])
    except HookpatchError as error:
        return _Row(*head, str(error), "broken", str(error), [])
    if host.has_commands_only(plugin):
        return _Row(*head, plugin.description, "commands", f"hookpatch {plugin.name}", [])
    given = _selection.selection_of([plugin.name], {}, "hookpatch list").options
    try:
        patches = host.patches(plugin, given.get(plugin.name, {}))
    except OptionsError as error:
        takes = f"needs options ({error.problem.rpartition('it takes ')[2]})"
        return _Row(*head, plugin.description, "needs options", takes, [])
    except HookpatchError as error:
        return _Row(*head, str(error), "broken", str(error), [])
    told = [{"verb": one.verb, "target": one.address, "release": _release(one)} for one in patches]
    return _Row(*head, plugin.description, *_verdict(patches, installed), told)


def _release(patch: Patch) -> str:
    """Return the distribution that a target lies in, with its version, without importing it; empty if in none."""
    return " ".join(release_of(patch.module)).strip()


def _verdict(patches: Iterable[Patch], plugin: Installed) -> tuple[str, str | None]:
    verdicts = [by_version(Asked(patch, plugin.name, plugin.origin)) for patch in patches]
    problems = [verdict.problem for verdict in verdicts if verdict.problem is not None]
    unneeded = [verdict.unneeded for verdict in verdicts if verdict.unneeded is not None]
    if problems:
        return "does not fit", problems[0]
    return ("not needed", unneeded[0]) if unneeded else ("fits", None)
