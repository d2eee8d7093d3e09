"""``hookpatch why``: print the layers of a slot while the selected plugins are on."""

from __future__ import annotations

from importlib import import_module
from itertools import chain
from typing import Annotated

import typer

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import is_plugin
from hookpatch._engine.patch.module_lookup import nearly
from hookpatch._engine.patch.target import Target
from hookpatch._inspect.slot.report import LayerReport
from hookpatch._inspect.slot.why import modules_of
from hookpatch._inspect.slot.why import why as layers_of
from hookpatch._plugins.host import Host
from hookpatch._processes.active import active
from hookpatch.command._app import AsJson, OptionWords, PluginWords, print_json
from hookpatch.command._tables import print_line
from hookpatch.command._targets import imports_aside, options_of_words
from hookpatch.errors import SettingError, printable

_STYLES = {"hookpatch": "cyan", "somebody": "yellow", "module": "green"}


def why(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS", help="Such as onnxsim:simplify.")],
    plugin: PluginWords = None,
    option: OptionWords = None,
    json: AsJson = False,
) -> None:
    """Print the patches and wrappers of a function, outermost first.

    Imports the module of the address, with the plugins of HOOKPATCH_PLUGINS or pyproject.toml and of -p on.

    Example: hookpatch why onnxsim:simplify -p fuse_qkv_off
    """
    for address in addresses:
        if ":" not in address and is_plugin(address):
            problem = f"'{address}' is a plugin, and no address; 'hookpatch plan {address}' prints its targets"
            raise SettingError("hookpatch why", problem)
    targets = [Target(address) for address in addresses]
    of_environment = selection.from_environment()
    names = list(dict.fromkeys([*of_environment.names, *(plugin or ())]))
    with imports_aside():
        selected = selection.Selection(names, {}, "-p")
        of_words = options_of_words(option or (), selected, Host(), "add -p {name}") if option else {}
    options = selection.merged(names, of_environment.options, of_words)
    with imports_aside(), active(*names, options=options, children="local"):
        for name in chain.from_iterable(map(modules_of, targets)):
            try:
                import_module(name)
            except Exception as error:  # the module's code may raise any error
                problem = f"{name} cannot be imported: {type(error).__name__}: {error}"
                problem = f"{problem}; run this command with the Python of the program"
                if isinstance(error, ModuleNotFoundError):
                    beside = "for a module beside a program's script, call hookpatch.why() in the program"
                    near = nearly(name)  # a question
                    problem = f"{near} {beside}" if near else f"{problem}; {beside}"
                raise SettingError("hookpatch why", problem) from error
        reports = [layers_of(target) for target in targets]
    if json:
        print_json({"slots": [report.to_dict() for report in reports]})
        return
    for report in reports:
        note = f": {printable(report.note)}" if report.note else ""
        print_line((printable(report.target), "bold"), (note, ""))
        for layer in report.layers:
            _print(layer)


def _print(layer: LayerReport) -> None:
    style = _STYLES[layer.by] if layer.reached else "dim"
    for line in printable(str(layer)).splitlines():
        text = line.lstrip()
        print_line((text, style), indent=2 + len(line) - len(text))
