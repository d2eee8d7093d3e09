"""The app of typer: all commands but ``run``, a plugin's own, and the arguments, text and JSON that they share.

A command's file is imported when the command is typed. Completion reads the metadata of installed plugins and loads no
plugin.
"""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from hookpatch._bootstrap.installed import Installed, find, installed
from hookpatch.command._targets import imports_aside
from hookpatch.errors import UnknownCommand, UnknownPlugin, printable

# By name: the function, and the line of the help: the first line of the function's docstring.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "list": ("_list:list_plugins", "List the installed plugins, and whether they fit."),
    "plan": ("_plan:plan", "Print the patches of a run in their order, and whether each fits."),
    "lock": ("_check:lock", "Write the source and signature of each target into a lock file."),
    "check": ("_check:check", "Check whether the targets of plugins have changed, and still fit."),
    "doctor": ("_doctor:doctor", "Check this installation; name each fault with its remedy."),
    "report": ("_report:report", "Print the report of a run, joined from the files of its processes."),
    "why": ("_why:why", "Print the patches and wrappers of a function, outermost first."),
    "explain": ("_explain:explain", "Explain an error or warning, with its remedy."),
    "run": ("_app:run", "Run a program as python does, with plugins on."),
    "new": ("_new:new", "Write a new plugin, with a test that passes."),
    "audit": ("audit._audit:audit", "Run a program, and list every patch in the program, by any author."),
    "adopt": ("audit._adopt:adopt", "Write a plugin with the same patches as a function."),
}
_SETTINGS: Final[dict[str, Any]] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


def print_text(text: str) -> None:
    """Print a text."""
    typer.echo("\n".join(map(printable, text.split("\n"))))


def print_json(content: object) -> None:
    """Print an object as indented JSON."""
    typer.echo(json.dumps(content, indent=2))


def plugin_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the plugins whose names begin with a text, each with the distribution."""
    return [(plugin.name, plugin.origin) for plugin in installed() if plugin.name.startswith(incomplete)]


Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="Names of plugins; default: from HOOKPATCH_PLUGINS or pyproject.toml, or else from the lock file.",
        autocompletion=plugin_names,
    ),
]
OptionWords: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="PLUGIN.NAME=VALUE", help="An option of a plugin; write a list with commas."
    ),
]
PluginWords: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        *("-p", "--plugin"),
        metavar="NAME",
        help="Switch a plugin on; may be repeated.",
        autocompletion=plugin_names,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Command(TyperCommand):
    """A command whose flags need no conversion."""

    def get_params(self, ctx: Any) -> Any:
        """Return the arguments and options."""
        return _with_defaults(super().get_params(ctx))


def _with_defaults(params: Any) -> Any:
    """Give each flag the default False: typer converts a None by pydantic, whose import takes 60 ms."""
    for param in params:
        if getattr(param, "is_flag", False) and param.default is None:
            param.default = False
    return params


class Commands(TyperGroup):
    """The commands of hookpatch; any other word is the name of a plugin."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options; hide two options, to fit the help on a screen."""
        params = _with_defaults(super().get_params(ctx))
        for param in params:
            if param.name in ("show_completion", "help"):
                param.hidden = True
        return params

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of hookpatch's own commands."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands for the help without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of hookpatch, or the group of a plugin's commands."""
        if cmd_name in COMMANDS:
            return command(cmd_name)
        if cmd_name.startswith("-"):
            return None
        if ctx.resilient_parsing:
            return TyperGroup(name=cmd_name)  # completion by a shell loads no plugin
        try:
            plugin = find(cmd_name, f"hookpatch {cmd_name}")
        except UnknownPlugin:
            names = sorted({plugin.name for plugin in installed()})
            raise UnknownCommand(cmd_name, self.list_commands(ctx), names) from None
        return _commands_of(plugin, f"hookpatch {cmd_name}")


app: Final = typer.Typer(
    name="hookpatch",
    help="\b\nPatches for code you cannot edit: named, installable, reversible.\n"
    "A plugin's own commands are under its name: hookpatch onnx diff.",
    cls=Commands,
    **_SETTINGS,
)


def command(name: str) -> Any:
    """Return a command of hookpatch. The command's file is imported."""
    file, _, function = COMMANDS[name][0].partition(":")
    module = import_module(f"{__package__}.{file}")
    kind = getattr(module, f"{function.title()}Command", Command)
    return _only(name, lambda app: app.command(name, cls=kind)(getattr(module, function)))


def run_app(settings: SimpleNamespace) -> Any:
    """Run the command named by the words of this process; return the command's status."""
    return typer.main.get_command(app)(prog_name="hookpatch", obj=settings, standalone_mode=False)


def run(
    plugin: PluginWords = None,
    option: OptionWords = None,
    report: Annotated[str, typer.Option("--report")] = "",
    count: Annotated[bool, typer.Option("--count")] = False,
) -> None:
    """Let a shell complete the options of ``run``, whose words ``_run`` parses."""


def _only(name: str, add: Any, **settings: Any) -> Any:
    """Return the group of the commands added to an app by a function, or the only command with the group's name."""
    app = typer.Typer(name=name, add_completion=False, **_SETTINGS, **settings)
    app.callback()(lambda: None)  # without a callback typer drops the name of a single command
    add(app)
    group: Any = typer.main.get_command(app)
    for of_group in group.commands.values():
        for param in of_group.params:
            if param.param_type_name == "argument":  # the metavar names the argument; typer adds <list[str]>
                param.display_type_rich = lambda ctx: ""
                if param.required:  # typer writes {NAME}
                    word = param.metavar or param.name.upper()
                    usage = [word if param.nargs == 1 or word.endswith("]") else f"{word}..."]
                    param.get_usage_pieces = lambda ctx, usage=usage: usage
    return group.commands[name] if list(group.commands) == [name] else group


def _commands_of(plugin: Installed, asked_by: str) -> Any:
    from hookpatch._plugins.host import Host  # here: imports pluggy

    host = Host()
    with imports_aside():
        loaded = host.plugin(plugin, asked_by)
    return _only(plugin.name, lambda app: host.add_commands(loaded, app), help=loaded.description)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"hookpatch {version('hookpatch')}")
        raise typer.Exit


def _keep_traceback(context: typer.Context, is_requested: bool) -> None:
    context.ensure_object(SimpleNamespace).traceback = is_requested  # main() passes the object


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Print the traceback of an error.", callback=_keep_traceback, is_eager=True),
    ] = False,
) -> None:
    pass
