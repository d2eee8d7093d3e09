"""``hookpatch list``: print the installed plugins, and whether their patches fit the installed versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import Installed, installed
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.seen import PluginFacts, facts_of_plugins
from hookpatch.command._app import AsJson, print_json, print_text
from hookpatch.command._tables import FOLD, NO_WRAP, Cell, print_table, progress


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
        typer.Option("--look", help="Import the targets, in throwaway processes."),
    ] = False,
    json: AsJson = False,
) -> None:
    """List the installed plugins, and whether they fit.

    What each does, where it comes from, what it patches. Without --look a plugin fits if hookpatch plan has found so,
    and no file has changed since.

    Example: hookpatch list --look
    """
    with progress("looking at the plugins"):
        selection.options_asked()  # unusable options are an error of the command, and of no plugin
        plugins = installed()
        rows = [*map(_row, plugins, facts_of_plugins(plugins, LookOptions(imports=look), "hookpatch list"))]
    if json:
        print_json({"plugins": [row._asdict() for row in rows]})
    elif rows:
        columns = {"plugin": NO_WRAP, "description, distribution, targets": FOLD, "fits": 26}
        print_table(columns, map(_in_colours, rows))
    else:
        print_text("No plugins are installed. Plugins come as distributions, such as hookpatch-onnxsim.")


def _in_colours(row: _Row) -> tuple[Cell, Cell, Cell]:
    about = [(row.description, ""), (f"{row.distribution} {row.version}", "dim")]
    for patch in row.patches:
        release = f" ({patch['release']})" if patch["release"] else ""
        about.append((f"{patch['target']}{release}", "cyan"))
    verdict = row.reason or {"fits": "yes"}.get(row.status, row.status)
    return [(row.name, "bold")], about, [(row.status if row.status == "broken" else verdict, _STYLES[row.status])]


def _row(plugin: Installed, facts: PluginFacts) -> _Row:
    head = plugin.name, plugin.distribution, plugin.version
    description = facts.description
    match facts.status:
        case "patches":
            return _Row(*head, description, *_verdict(facts.planned), list(facts.patches))
        case "commands":
            status, words = ("not found" if facts.problem else "commands"), f"hookpatch {plugin.name}"
            return _Row(*head, description, status, f"{words} {facts.problem}" if facts.problem else words, [])
        case "needs options":
            takes = str(facts.problem).rpartition("it takes ")[2]
            return _Row(*head, description, "needs options", f"needs options ({takes})", [])
        case "not allowed":  # the description is in the module, which is not imported
            return _Row(*head, str(facts.problem), "not allowed", None, [])
    return _Row(*head, str(facts.problem), "broken", facts.problem, [])


def _verdict(patches: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    for status, findings in _FINDINGS.items():
        for patch in patches:
            if patch["finding"] in findings:
                return status, None if status == "not looked at" else patch["reason"]
    warnings = [warning for patch in patches for warning in patch["warnings"]]
    return ("not needed", warnings[0]) if warnings else ("fits", None)
