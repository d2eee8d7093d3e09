"""Parts that several commands share: arguments, options with completion, tables, JSON.

Completion reads the metadata of installed plugins and loads no plugin.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from hookpatch._bootstrap.installed import find, installed
from hookpatch._bootstrap.selection import PluginName, Selection, normalise
from hookpatch._plugins.host import Host
from hookpatch._plugins.options import option_from_text
from hookpatch.errors import SettingError, printable

NO_WRAP: Final[Mapping[str, Any]] = {"no_wrap": True}  # for the columns of print_table
FOLD: Final[Mapping[str, Any]] = {"overflow": "fold"}


class Output(Console):
    """Stdout for a person: control characters in names, arguments and messages of others are escaped."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def say(text: str) -> None:
    """Print a text."""
    typer.echo("\n".join(map(printable, text.split("\n"))))


def print_table(
    console: Console, columns: Mapping[str, Mapping[str, Any]], rows: Iterable[Iterable[RenderableType]]
) -> None:
    """Print a table with a box on a terminal, and without in a log."""
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for title, options in columns.items():
        table.add_column(title, **options)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def spinner(message: str) -> AbstractContextManager[object]:
    """Show a message with a spinner on stderr while a block runs; nothing where stderr is no terminal."""
    return Console(stderr=True).status(message) if sys.stderr.isatty() else nullcontext()


def print_json(content: object) -> None:
    """Print an object as indented JSON."""
    typer.echo(json.dumps(content, indent=2))


def plugin_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the plugins whose names begin with a text, each with its distribution."""
    return [(plugin.name, plugin.origin) for plugin in installed() if plugin.name.startswith(incomplete)]


Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="Plugins; default: those of the environment, else of the lock file.",
        autocompletion=plugin_names,
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


def options_of_words(words: Iterable[str], selection: Selection, host: Host, way: str) -> dict[str, dict[str, Any]]:
    """Return typed options by plugin from words such as ``onnxsim_skip.passes=fuse_qkv``.

    ``way`` is the advice for a plugin that is not selected, with the placeholder ``{name}``.
    """
    options: dict[str, dict[str, Any]] = {}
    for word in words:
        name, dot, rest = word.partition(".")
        key, equals, value = rest.partition("=")
        if not (dot and equals and name and key):
            raise SettingError(
                "-o", f"'{word}' cannot be read; write it like onnxsim_skip.passes=fuse_qkv,fuse_bn_into_conv"
            )
        selected = [plugin for plugin in selection.names if PluginName(plugin).name == normalise(name)]
        if not selected:
            raise SettingError("-o", f"'{word}' is for a plugin that is not switched on; {way.format(name=name)}")
        plugin = host.plugin(find(selected[0], selection.asked_by), selection.asked_by)
        typed = option_from_text(plugin.options_type, key, value, plugin.name, plugin.installed.origin)
        options.setdefault(plugin.name, {})[key] = typed
    return options


def words_of(options: Mapping[str, Mapping[str, Any]], way: str) -> list[str]:
    """Return options as words for ``-o`` of another process; refuses tables, and lists with a comma in an entry."""
    return [f"{name}.{key}={_text(value, way, name, key)}" for name in options for key, value in options[name].items()]


def _text(value: Any, way: str, name: str, key: str) -> str:
    if isinstance(value, (list, tuple)) and not any("," in str(item) for item in value):
        return ",".join(_text(item, way, name, key) for item in value)
    if isinstance(value, (list, tuple, Mapping)):
        raise SettingError(way, f"the option {key} of '{name}' cannot be handed on as {name}.{key}=VALUE: {value!r}")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
