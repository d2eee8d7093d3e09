"""``hookpatch list``: print the installed plugins, and whether their patches fit the installed versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import Installed, installed
from hookpatch._engine.patch.versions import release_of
from hookpatch._inspect.plan import PlannedPatch, plan_alone
from hookpatch._inspect.throwaway import Look
from hookpatch._plugins.host import Host
from hookpatch.command._arguments import FOLD, NO_WRAP, AsJson, print_json, print_table, spinner
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
    "not looked at": "",
    "not found": "yellow",
    "not needed": "yellow",
    "does not fit": "red",
    "not allowed": "yellow",
    "broken": "red",
}


_FINDINGS: Final = {
    "does not fit": ("unfit", "conflict", "skipped"),
    "not found": ("absent",),
    "not looked at": ("not looked at",),
}


def list_plugins(
    look: Annotated[
        bool,
        typer.Option("--look", help="Import the targets, in processes that are thrown away."),
    ] = False,
    json: AsJson = False,
) -> None:
    """List the installed plugins, and whether they fit.

    What each does, where it comes from, what it patches. Without --look a plugin fits if hookpatch plan has found so,
    and no file has changed since.

    Example: hookpatch list --look
    """
    with spinner("looking at the plugins"):
        rows = [_row(plugin, Look(imports=look)) for plugin in installed()]
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


def _row(installed: Installed, look: Look) -> _Row:
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
        planned = plan_alone(installed, patches, options, look)
    except OptionsError as error:
        takes = f"needs options ({error.problem.rpartition('it takes ')[2]})"
        return _Row(*head, plugin.description, "needs options", takes, [])
    except HookpatchError as error:
        return _Row(*head, str(error), "broken", str(error), [])
    in_json = [
        {"verb": patch.verb, "target": patch.address, "release": " ".join(release_of(patch.module)).strip()}
        for patch in patches
    ]
    return _Row(*head, plugin.description, *_verdict(patch for target in planned for patch in target.patches), in_json)


def _verdict(patches: Iterable[PlannedPatch]) -> tuple[str, str | None]:
    patches = list(patches)
    for status, findings in _FINDINGS.items():
        for patch in patches:
            if patch.finding in findings:
                return status, None if status == "not looked at" else patch.reason
    warnings = [warning for patch in patches for warning in patch.warnings]
    return ("not needed", warnings[0]) if warnings else ("fits", None)
