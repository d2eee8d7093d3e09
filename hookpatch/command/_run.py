"""``hookpatch run``: python itself, with plugins on."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from hookpatch import _environment, _selection, _variables
from hookpatch._discovery import Installed, check_allowed, find
from hookpatch._host import Host
from hookpatch._relations import Relations, check
from hookpatch._selection import Selection
from hookpatch._startup import begin
from hookpatch.command._arguments import OptionWords, PluginWords
from hookpatch.command._graph_diff import GRAPH_DIFF, recorder_for, run_twice
from hookpatch.command._in_process import Program
from hookpatch.command._option_words import options_of_words
from hookpatch.errors import HookpatchError, SettingError

_BOOTSTRAP = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_bootstrap")
_TAKES_VALUE = ("-p", "--plugin", "-o", "--option", "--report", "--graph-diff")


class RunCommand(TyperCommand):
    """Leaves everything from the script, ``-m`` or ``-c`` on alone, as python does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``--`` before the first word that is python's."""
        at = 0
        while at < len(args):
            word = args[at]
            if word in _TAKES_VALUE:
                at += 2
                continue
            if not word.startswith("-") or word == "-" or word[:2] in ("-m", "-c"):
                args = [*args[:at], "--", *args[at:]]
                break
            if word == "--":
                break
            at += 1  # an option of ours, or one that is none and that typer refuses: -I would switch us off in silence
        return list(super().parse_args(ctx, args))


def run(
    target: Annotated[list[str], typer.Argument(metavar="SCRIPT | -m MODULE | -c CODE [ARGUMENTS]")],
    plugin: PluginWords = None,
    option: OptionWords = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FOLDER", help="Each process leaves a JSON report in this folder.")
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", help="Count the calls that each patch receives, and tell at each process's end.")
    ] = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run it in this very process, for a debugger that is attached to it.")
    ] = False,
    graph_diff: Annotated[
        str | None,
        typer.Option(
            "--graph-diff", metavar="FOLDER", help="Run it twice, plain and patched; compare the ONNX models it makes."
        ),
    ] = None,
) -> None:
    """Run a program with plugins on, else as python does.

    On are those of HOOKPATCH_PLUGINS, else of [tool.hookpatch] in pyproject.toml, and those of -p.

    Example: hookpatch run -p fuse_qkv_off export.py --small
    """
    known, host = _selection.from_environment(), Host()
    for name in known.names if _selection.on_error() == "exit" else ():
        check_allowed(find(name, known.asked_by), known.asked_by)
    selection = Selection(plugin or (), {}, "-p")
    given = options_of_words(option or (), Selection([*selection.names, *known.names], {}, "-p"), host, "add -p {name}")
    also = [name for name in known.names if _selection.is_any_of(name, given)]
    # A mistake ends here, not in the program.
    host.load(_selection.selection_of([*selection.names, *also], given, "-p"))
    check(host.relations, "-p", on=_of_environment())
    if sys.flags.ignore_environment:
        raise SettingError(
            "hookpatch run",
            "this python ignores the environment (-I or -E), so the program would run unpatched; leave the flag out",
        )
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), *target]  # type: ignore[attr-defined]  # what multiprocessing uses
    if graph_diff is not None:
        if in_process:
            raise SettingError(GRAPH_DIFF, "runs the program twice, which --in-process cannot; leave that out")
        recorder = recorder_for(graph_diff, target)
        asked = Selection(selection.names, given, "-p")
        raise typer.Exit(run_twice(graph_diff, recorder, command, asked, report, _ready))
    environment = _ready(_variables.environment_with(selection.names, given, report, count))
    if in_process:
        _environment.take(environment)
        begin()
        raise Program(target)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":  # exec there returns to the shell before the program has ended
        raise typer.Exit(subprocess.call(command, env=environment))
    os.execve(sys.executable, command, environment)


def _of_environment() -> dict[Installed, Relations]:
    """Return the plugins that the environment asks for, too; what is wrong with them is told at the program's start."""
    found: dict[Installed, Relations] = {}
    for name in _selection.asked_names():
        with suppress(HookpatchError):
            found[find(name, _environment.PLUGINS)] = Relations()
    return found


def _ready(environment: dict[str, str]) -> dict[str, str]:
    """Have hookpatch start in an environment, also in one without the start-up file.

    That is an installation with --target, or one that is only on PYTHONPATH: a sitecustomize of ours does the same.
    """
    if startup_file():
        return environment
    folders = (_BOOTSTRAP, environment.get("PYTHONPATH", ""))
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def startup_file() -> bool:
    """Tell whether the start-up file lies where this Python reads it."""
    folders = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    return any(folder and os.path.exists(os.path.join(folder, "hookpatch.pth")) for folder in folders)
