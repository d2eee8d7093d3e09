"""Arguments and options that several commands take: names and options of plugins, with completion, and --json.

Names are completed from what is written down of the installed plugins: none is loaded for it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from hookpatch._discovery import installed


def plugin_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the plugins whose names begin so, each with its distribution."""
    return [(plugin.name, plugin.origin) for plugin in installed() if plugin.name.startswith(incomplete)]


Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="Plugins; else those on here, else of the lock file.", autocompletion=plugin_names
    ),
]
OptionWords: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="PLUGIN.NAME=VALUE", help="An option of a plugin; a comma list for a sequence."
    ),
]
PluginWords: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        *("-p", "--plugin"),
        metavar="NAME",
        help="A plugin to switch on; may be given again.",
        autocompletion=plugin_names,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
