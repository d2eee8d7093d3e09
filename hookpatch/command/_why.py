"""``hookpatch why``: who stands at an address, layer by layer, in a process with the plugins asked for on."""

from __future__ import annotations

import json as _json
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hookpatch import _selection
from hookpatch._active import active
from hookpatch._slot_report import LayerReport, SlotReport
from hookpatch._target import Target
from hookpatch._why import modules_of
from hookpatch._why import why as look
from hookpatch.command._arguments import AsJson, PluginWords
from hookpatch.command._targets import imports_aside
from hookpatch.errors import SettingError

_STYLES = {"hookpatch": "cyan", "somebody": "yellow", "module": "green"}


def why(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Such as onnxsim:simplify.")],
    plugin: PluginWords = None,
    json: AsJson = False,
) -> None:
    """Tell who stands at an address, layer by layer.

    The address's module is imported, with the plugins on that the environment and -p ask for.

    Example: hookpatch why onnxsim:simplify -p fuse_qkv_off
    """
    targets = [Target(address) for address in addresses]
    of_environment = _selection.from_environment()
    names = dict.fromkeys([*of_environment.names, *(plugin or ())])
    with imports_aside(), active(*names, options=of_environment.options, children="local"):
        for target in targets:
            for name in modules_of(target):
                _import(name)
        found = [look(target) for target in targets]
    if json:
        typer.echo(_json.dumps({"slots": [one.to_dict() for one in found]}, indent=2))
        return
    console = Console()
    for one in found:
        console.print(_text(one), soft_wrap=True)


def _import(name: str) -> None:
    try:
        import_module(name)
    except Exception as error:  # whatever somebody's module raises
        problem = f"{name} cannot be imported: {type(error).__name__}: {error}"
        raise SettingError("hookpatch why", f"{problem}; look in the Python that has it") from error


def _text(one: SlotReport) -> Text:
    lines = [Text(one.target, style="bold") + Text(f": {one.note}" if one.note else "")]
    return Text("\n").join([*lines, *map(_layer, one.layers)])


def _layer(layer: LayerReport) -> Text:
    title, _, rest = str(layer).partition("\n")
    style = _STYLES[layer.by] if layer.reached else "dim"
    return Text(f"  {title}\n", style=style) + Text("\n".join(f"  {line}" for line in rest.splitlines()))
