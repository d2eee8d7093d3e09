"""``hookpatch run --graph-diff``: the program twice, plain and patched, and what its ONNX models differ in.

What records the models and what compares them is the plugin ``onnx`` of hookpatch-onnx.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from hookpatch import _environment, _variables
from hookpatch._discovery import Installed, find
from hookpatch._selection import Selection
from hookpatch._stderr import EXIT_STATUS, say
from hookpatch.command._of_plugin import commands_of
from hookpatch.errors import HookpatchError, SettingError, UnknownPlugin, for_stderr

GRAPH_DIFF: Final = "--graph-diff"
_PLUGIN: Final = "onnx"


def recorder_for(folder: str, program: Sequence[str]) -> Installed:
    """Return the plugin that records and compares.

    Raises:
        SettingError: it is not installed; the folder has models of another run; the program cannot be run twice.
        AmbiguousPlugin: two have its name.
    """
    try:
        plugin = find(_PLUGIN, GRAPH_DIFF)
    except UnknownPlugin:
        raise SettingError(
            GRAPH_DIFF, "the plugin 'onnx' does it, which is not installed; pip install hookpatch-onnx"
        ) from None
    if program[0] == "-":
        raise SettingError(GRAPH_DIFF, "runs the program twice, and stdin can be read once; put it into a file")
    if _environment.disabled():
        raise SettingError(GRAPH_DIFF, f"{_environment.DISABLE} is set, so nothing would be patched; unset it")
    for name in ("plain", "patched"):
        if os.path.exists(os.path.join(folder, name)):
            raise SettingError(GRAPH_DIFF, f"{os.path.join(folder, name)} is of an earlier run; name another folder")
    return plugin


def run_twice(
    folder: str,
    plugin: Installed,
    command: Sequence[str],
    asked: Selection,
    report: str | None,
    ready: Callable[[dict[str, str]], dict[str, str]],
) -> int:
    """Run a command twice and print what its models differ in.

    Args:
        folder: where the models, the words and the pages go.
        plugin: what records and compares.
        command: what is run.
        asked: the plugins and options of the second run, besides those of the environment.
        report: the folder in which the processes of the second run leave their reports, or None.
        ready: makes an environment one in which hookpatch starts.

    Returns:
        The patched run's status, 128 + n after signal n; if that is 0, that of the comparison.

    Raises:
        SettingError: the folder cannot be written.
    """
    plain, patched = (os.path.join(os.path.abspath(folder), name) for name in ("plain", "patched"))
    try:
        for one in (plain, patched):
            os.makedirs(one)
    except OSError as error:
        raise SettingError(GRAPH_DIFF, f"{folder} cannot be written: {error.strerror}") from None
    only = _variables.variables(Selection([_PLUGIN], {_PLUGIN: {"folder": plain}}, GRAPH_DIFF))
    _say("the program is run twice; now plain")
    status = subprocess.call(command, env=ready({**_environment.without_ours(), **only}))
    if status:
        _say(f"the plain run ended with status {status}; what it made until then is compared")
    options = {**asked.options, _PLUGIN: {"folder": patched}}
    both = _variables.environment_with(asked.names, options, report, count=True, first=[_PLUGIN])
    _say("now patched")
    status = subprocess.call(command, env=ready(both))
    try:
        commands_of(plugin, GRAPH_DIFF).main(["diff", plain, patched, "-o", folder], standalone_mode=False)
    except HookpatchError as error:
        say(for_stderr(error), kind="error")
        return status or EXIT_STATUS
    return status if status >= 0 else 128 - status


def _say(what: str) -> None:
    sys.stdout.flush()
    say(f"{GRAPH_DIFF}: {what}")
