"""``hookpatch NAME ...``: a plugin's own commands, under its name. It is loaded when it is named, as everywhere."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from hookpatch._discovery import Installed, find, installed
from hookpatch._host import Host
from hookpatch.errors import UnknownCommand, UnknownPlugin


class WithPlugins(TyperGroup):
    """The commands of ours; a word that is none of them is the name of a plugin."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options, of which one is not in the help: that is to fit a screen."""
        params: Any = super().get_params(ctx)
        for param in params:
            if param.name in ("show_completion", "help"):  # who reads this has found the second
                param.hidden = True
        return params

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or the group of a plugin's commands.

        Raises:
            UnknownCommand: there is neither.
            SelectionError: the plugin is not allowed here, or two have the name.
            PluginError: it cannot be loaded, or has no commands.
        """
        found = super().get_command(ctx, cmd_name)
        if found is not None or cmd_name.startswith("-"):
            return found
        if ctx.resilient_parsing:
            return TyperGroup(name=cmd_name)  # a shell asks what may follow: nothing is loaded for that
        try:
            plugin = find(cmd_name, f"hookpatch {cmd_name}")
        except UnknownPlugin:
            names = sorted({plugin.name for plugin in installed()})
            raise UnknownCommand(cmd_name, self.list_commands(ctx), names) from None
        return commands_of(plugin, f"hookpatch {cmd_name}")


def commands_of(plugin: Installed, asked_by: str) -> Any:
    """Return the group of a plugin's own commands.

    Raises:
        NotAllowed: it is not allowed here.
        PluginError: it cannot be loaded, or has no commands.
    """
    host = Host()
    loaded = host.plugin(plugin, asked_by)
    app = typer.Typer(
        name=plugin.name,
        help=loaded.description,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_nothing)  # with it a single command is one by name, too
    host.add_commands(loaded, app)
    group: Any = typer.main.get_command(app)
    return group.commands[plugin.name] if list(group.commands) == [plugin.name] else group


def _nothing() -> None:
    pass
