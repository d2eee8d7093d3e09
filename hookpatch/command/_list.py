"""``hookpatch list``: print the installed plugins, and whether their patches fit the installed versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import Installed, installed
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.versions import release_of
from hookpatch._inspect.dry_run import by_version
from hookpatch._plugins.host import Host
from hookpatch._session.ledger import Requested
from hookpatch.command._arguments import FOLD, NO_WRAP, AsJson, print_json, print_table
from hookpatch.errors import HookpatchError, NotAllowed, OptionsError


class _Row(NamedTuple):
    """One plugin; ``status`` is a key of ``_STYLES``."""

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
        print_json({"plugins": [row._asdict() for row in rows]})
    elif rows:
        columns = {"plugin": NO_WRAP, "what it does, from, and where": FOLD, "fits": {"max_width": 26}}
        print_table(Console(), columns, map(_in_colours, rows))
    else:
        typer.echo("No plugins are installed. They come as distributions, such as hookpatch-onnxsim.")


def _in_colours(row: _Row) -> tuple[Text, Text, Text]:
    releases = [f"({patch['release']})" if patch["release"] else "" for patch in row.patches]
    targets = [
        Text(f"{patch['target']} {release}", style="cyan") for patch, release in zip(row.patches, releases, strict=True)
    ]
    origin = Text(f"{row.distribution} {row.version}", style="dim")
    verdict = row.reason or {"fits": "yes"}.get(row.status, row.status)
    return (
        Text(row.name, style="bold"),
        Text("\n").join([Text(row.description), origin, *targets]),
        Text(row.status if row.status == "broken" else verdict, style=_STYLES[row.status]),
    )


def _row(installed: Installed) -> _Row:
    host, head = Host(), (installed.name, installed.distribution, installed.version)
    try:
        plugin = host.plugin(installed, "hookpatch list")
    except NotAllowed as error:  # the description is in the module, which is not imported
        return _Row(*head, str(error), "not allowed", None, [])
    except HookpatchError as error:
        return _Row(*head, str(error), "broken", str(error), [])
    if host.has_commands_only(plugin):
        return _Row(*head, plugin.description, "commands", f"hookpatch {plugin.name}", [])
    options = selection.selection_of([plugin.name], {}, "hookpatch list").options
    try:
        patches = host.patches(plugin, options.get(plugin.name, {}))
    except OptionsError as error:
        takes = f"needs options ({error.problem.rpartition('it takes ')[2]})"
        return _Row(*head, plugin.description, "needs options", takes, [])
    except HookpatchError as error:
        return _Row(*head, str(error), "broken", str(error), [])
    in_json = [
        {"verb": patch.verb, "target": patch.address, "release": " ".join(release_of(patch.module)).strip()}
        for patch in patches
    ]
    return _Row(*head, plugin.description, *_verdict(patches, installed), in_json)


def _verdict(patches: Sequence[Patch], plugin: Installed) -> tuple[str, str | None]:
    verdicts = [by_version(Requested(patch, plugin.name, plugin.origin)) for patch in patches]
    problems = [verdict.problem for verdict in verdicts if verdict.problem is not None]
    unneeded = [verdict.unneeded for verdict in verdicts if verdict.unneeded is not None]
    if problems:
        return "does not fit", problems[0]
    return ("not needed", unneeded[0]) if unneeded else ("fits", None)
