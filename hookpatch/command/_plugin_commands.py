"""``hookpatch NAME ...``: run a plugin's own commands. The plugin is loaded only if its name is given."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from hookpatch._bootstrap.installed import Installed, find, installed
from hookpatch._plugins.host import Host
from hookpatch.command._targets import imports_aside
from hookpatch.errors import UnknownCommand, UnknownPlugin


class WithPlugins(TyperGroup):
    """The commands of hookpatch; any other word is the name of a plugin."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options; hides two of them, so that the help fits on a screen."""
        params: Any = super().get_params(ctx)
        for param in params:
            if param.name in ("show_completion", "help"):
                param.hidden = True
        return params

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of hookpatch, or the group of a plugin's commands."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name.startswith("-"):
            return command
        if ctx.resilient_parsing:
            return TyperGroup(name=cmd_name)  # completion by a shell loads no plugin
        try:
            plugin = find(cmd_name, f"hookpatch {cmd_name}")
        except UnknownPlugin:
            names = sorted({plugin.name for plugin in installed()})
            raise UnknownCommand(cmd_name, self.list_commands(ctx), names) from None
        return _commands_of(plugin, f"hookpatch {cmd_name}")


def _commands_of(plugin: Installed, asked_by: str) -> Any:
    host = Host()
    with imports_aside():
        loaded = host.plugin(plugin, asked_by)
    app = typer.Typer(
        name=plugin.name,
        help=loaded.description,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(lambda: None)  # without a callback typer drops the name of a single command
    host.add_commands(loaded, app)
    group: Any = typer.main.get_command(app)
    return group.commands[plugin.name] if list(group.commands) == [plugin.name] else group
