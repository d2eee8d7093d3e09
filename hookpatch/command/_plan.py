"""``hookpatch plan``: print the patches on each target, their order, and whether the patches fit."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Annotated

import typer

from hookpatch._bootstrap import environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.selection import Selection, normalise
from hookpatch._bootstrap.stderr import write_line
from hookpatch._inspect.cache import LIMIT, LookOptions
from hookpatch._inspect.plan import BY_HAND, WORDS, Plan, PlannedPatch, plan_of
from hookpatch._inspect.rehearsal import SEVERITY
from hookpatch._plugins.host import Host
from hookpatch._plugins.relations import check
from hookpatch._session.load import load, load_drift
from hookpatch.command._app import AsJson, OptionWords, plugin_names, print_text
from hookpatch.command._tables import is_terminal, print_line, progress, width_of
from hookpatch.command._targets import imports_aside, options_of_words
from hookpatch.errors import SettingError, printable

_STYLES = ("green", "yellow", "red")


def plan(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names of plugins; default: from HOOKPATCH_PLUGINS or pyproject.toml.",
            autocompletion=plugin_names,
        ),
    ] = None,
    option: OptionWords = None,
    no_import: Annotated[
        bool, typer.Option("--no-import", help="Import no target: compare versions, and print the kept result.")
    ] = False,
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit for the imports of the targets.")] = LIMIT,
    anew: Annotated[bool, typer.Option("--anew", help="Ignore a kept result, and look again.")] = False,
    json: AsJson = False,
) -> None:
    """Print the patches of a run in their order, and whether each fits.

    A child process imports the targets and applies the patches, as a run does. The result is kept until a file changes.
    Of several patches on one target, the first is the outermost.

    Ends with status 0 if all patches fit; 1 if a module is not found or was not looked at, or an optional patch does
    not fit; 2 if a required patch does not fit, or two patches exclude each other.

    Example: hookpatch plan fuse_qkv_off linear_kept
    """
    with progress("importing the targets in a child process"), imports_aside():
        planned = _planned(names or (), option or (), LookOptions(not no_import, limit, anew))
    if environment.disabled():
        write_line(f"{environment.DISABLE} is set: none of these patches would be applied", kind="warning")
    if json:
        typer.echo(planned.to_json())
    elif is_terminal():
        _print(planned)
    else:
        print_text(str(planned))
    raise typer.Exit(planned.status)


def _planned(names: Sequence[str], words: Sequence[str], look: LookOptions) -> Plan:
    selection, host = Selection(names, {}, "hookpatch plan") if names else _selection.from_environment(), Host()
    if not selection.names:
        problem = f"no plugin is named, and neither {environment.PLUGINS} nor a configuration names one"
        raise SettingError("hookpatch plan", f"{problem}; write it like 'hookpatch plan fuse_qkv_off'")
    of_words = options_of_words(words, selection, host, "name it, too: {name}")
    selection = _selection.selection_of(selection.names, of_words, selection.asked_by)
    _, by_name = load(selection, host)
    check(host.relations, selection.asked_by)
    locked = _selection.lock()
    load_drift(locked)  # a lock file that cannot be read is an error here
    items = [(name, by_name.pop(normalise(name))) for name in selection.names if normalise(name) in by_name]
    return plan_of(items, selection.options, locked, look)


def _print(planned: Plan) -> None:
    """Print a plan in columns; a line too long for the terminal continues indented."""
    names = [patch.plugin or BY_HAND for target in planned for patch in target.patches]
    width = max(map(len, names), default=0)
    for target in planned:
        print_line((printable(target.target), "bold cyan"), ("  ", ""), (printable(target.in_words), "dim"))
        for patch in target.patches:
            style = _STYLES[SEVERITY[patch.finding]]
            line, origin = _line(patch, width, style), (patch.distribution or "", "dim")
            beside = [*line, ("  ", ""), origin]
            fits_beside = sum(width_of(text) for text, _ in beside) <= get_terminal_size().columns
            print_line(*(beside if fits_beside else line))
            below = [] if fits_beside else [origin]
            below += [(patch.reason, style)] if patch.reason else []
            below += [(warning, "yellow") for warning in patch.warnings]
            for text, style in below:
                print_line((printable(text), style), indent=5)
    for plugin in planned.idle:
        print_line((f"{printable(plugin)} patches nothing", "yellow"))


def _line(patch: PlannedPatch, width: int, style: str) -> list[tuple[str, str]]:
    place = "-" if patch.place is None else str(patch.place)
    how = f"{patch.verb}, everywhere" if patch.reach == "everywhere" else patch.verb
    return [
        (f"{place:>3}  ", "dim"),
        (f"{printable(patch.plugin or BY_HAND):<{width}}", "bold"),
        (f"  {how:<19} ", ""),
        (WORDS[patch.finding], style),
    ]
