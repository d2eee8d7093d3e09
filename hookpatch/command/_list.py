"""``hookpatch list``: the installed plugins, and whether they fit what is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._discovery import Installed, installed
from hookpatch._host import Host
from hookpatch._ledger import Asked
from hookpatch._patch import Patch
from hookpatch._release import release_of
from hookpatch._verdict import by_version
from hookpatch.errors import HookpatchError, OptionsError


class _Row(NamedTuple):
    description: str
    targets: list[str]
    fits: Text


def list_plugins() -> None:
    """List the installed plugins, and whether they fit.

    What each does, where it comes from, what it patches.

    Example: hookpatch list
    """
    plugins = installed()
    console = Console()
    if not plugins:
        console.print("No plugins are installed. They come as distributions, such as hookpatch-onnxsim.")
        return
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("plugin", no_wrap=True)
    table.add_column("what it does, and where", overflow="fold")
    table.add_column("from", no_wrap=True)
    table.add_column("fits", max_width=26)
    for plugin in plugins:
        row = _row(plugin)
        table.add_row(
            Text(plugin.name, style="bold"),
            Text("\n").join([Text(row.description), *(Text(target, style="cyan") for target in row.targets)]),
            f"{plugin.distribution}\n{plugin.version}",
            row.fits,
        )
    console.print(table)


def _row(installed: Installed) -> _Row:
    host = Host()
    try:
        plugin = host.plugin(installed)
    except HookpatchError as error:
        return _Row(str(error), [], Text("broken", style="red"))
    if host.has_commands_only(plugin):
        return _Row(plugin.description, [], Text(f"hookpatch {plugin.name}", style="green"))
    try:
        patches = host.patches(plugin, {})
    except OptionsError as error:
        return _Row(plugin.description, [], Text(f"needs options ({error.problem.rpartition('it takes ')[2]})"))
    except HookpatchError as error:
        return _Row(str(error), [], Text("broken", style="red"))
    targets = [f"{patch.address}{_version(patch)}" for patch in patches]
    return _Row(plugin.description, targets, _verdict(patches, installed))


def _version(patch: Patch) -> str:
    """Return the distribution that a target lies in, with its version, without importing it."""
    release = " ".join(release_of(patch.module)).strip()
    return f" ({release})" if release else ""


def _verdict(patches: Iterable[Patch], plugin: Installed) -> Text:
    verdicts = [by_version(Asked(patch, plugin.name, plugin.origin)) for patch in patches]
    for style in ("red", "yellow"):
        for verdict in verdicts:
            if (said := verdict.problem if style == "red" else verdict.unneeded) is not None:
                return Text(said, style=style)
    return Text("yes", style="green")
