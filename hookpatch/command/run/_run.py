"""``hookpatch run``: run a program as python does, with plugins on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.files import current_folder
from hookpatch._bootstrap.imports import spec_of
from hookpatch._bootstrap.installed import Installed, check_allowed, find
from hookpatch._bootstrap.program import INSTALLERS, known_program
from hookpatch._bootstrap.selection import Selection
from hookpatch._bootstrap.stderr import write_line
from hookpatch._plugins.variables import environment_with, variables
from hookpatch.command._targets import imports_aside, options_of_words
from hookpatch.command.run._process import command_of, status_of, with_startup
from hookpatch.command.run._words import PROGRAM, Misspelt, check_order, check_program, help_text, parsed
from hookpatch.errors import HookpatchError, SettingError

if TYPE_CHECKING:
    from hookpatch._engine.patch.patch import Patch
    from hookpatch._plugins.host import Host
    from hookpatch._plugins.relations import Relations


@final
class Run:
    """A program that a plugin runs: the argument of the hook ``hookpatch_run``.

    Attributes:
        target: the words after ``python``: a script, ``-m MODULE`` or ``-c CODE``, and the program's arguments.
        option: the option, such as ``--graph-diff``.
    """

    def __init__(self, target: Sequence[str], option: str, selection: Selection, report: str | None) -> None:
        self.target: Final = tuple(target)
        self.option: Final = option
        self._selection: Final = selection
        self._report: Final = report

    def plain(self, options: Mapping[str, Mapping[str, Any]]) -> int:
        """Run the program without the selected plugins; return the exit status, 128 + n after signal n.

        Args:
            options: the plugins to switch on, with their options.
        """
        only = variables(Selection(options, options, self.option))
        return status_of(command_of(self.target), with_startup({**_environment.without_ours(), **only}))

    def patched(self, options: Mapping[str, Mapping[str, Any]]) -> int:
        """Run the program as ``hookpatch run`` does, and count the calls; return the exit status.

        Args:
            options: further plugins with their options; their patches are outside all others.
        """
        all_options = {**self._selection.options, **options}
        environment = environment_with(self._selection.names, all_options, self._report, count=True, first=options)
        return status_of(command_of(self.target), with_startup(environment))

    def write_line(self, message: str) -> None:
        """Write a line to stderr; flushes stdout first."""
        sys.stdout.flush()
        write_line(f"{self.option}: {message}")


def run(words: Sequence[str]) -> int:
    """Run a program as python does, with plugins on.

    Switches on the plugins of HOOKPATCH_PLUGINS, or without this variable the
    plugins of [tool.hookpatch] in pyproject.toml, and the plugins of -p.

    Example: hookpatch run -p fuse_qkv_off export.py --small
    """
    line = parsed(words)
    if "--help" in line.options:
        print(help_text(run.__doc__ or ""))
        return 0
    if not line.target:
        raise Misspelt(f"Missing argument '{PROGRAM}'")
    target, report, count = line.target, line.last("--report"), "--count" in line.options
    if report is not None and os.path.isfile(report):
        raise Misspelt(f"--report takes a folder, and '{report}' is a file")
    if not ("--plugin" in line.options or "--" in words or _selection.asked_names()):
        check_order(target)
    with imports_aside():  # what a plugin prints when it is loaded is not the output of the program
        selection, host, patches = _loaded(line.options.get("--plugin", ()), line.options.get("--option", ()))
    check_program(target)
    if sys.flags.ignore_environment:
        raise SettingError(
            "hookpatch run",
            "this python ignores the environment (-I or -E), and the program would run unpatched; leave the flag out",
        )
    if line.of_plugin is not None:
        from hookpatch._plugins.host import Host  # here: imports pluggy

        host = host or Host()
        name, written, value = line.of_plugin
        return host.run_program(
            host.plugin(find(name, written), written), value, Run(target, written, selection, report)
        )
    command = command_of(target)
    if (installer := known_program(command)) in INSTALLERS:
        write_line(f"{installer} runs without patches: an installer is never patched", kind="warning")
    environment = with_startup(environment_with(selection.names, selection.options, report, count))
    sys.stdout.flush()
    sys.stderr.flush()
    # The folder that the program will have first on its path: a script's, or where one is.
    start = current_folder() or ""  # it may have been deleted
    folder = start if target[0].startswith("-") else os.path.dirname(os.path.join(start, target[0]))
    if os.name == "nt" or any(_is_judged(patch, folder) for patch in patches):  # exec on Windows returns at once
        return status_of(command, environment)
    os.execve(sys.executable, command, environment)


class _Loaded(NamedTuple):
    """The plugins of -p with their options; the patches of these plugins and of those of the environment."""

    selection: Selection
    host: Host | None
    patches: list[Patch]


def _loaded(plugins: Sequence[str], words: Sequence[str]) -> _Loaded:
    """Load the plugins here: an error should end hookpatch, not the program."""
    of_environment = _selection.from_environment()
    if not (plugins or words or of_environment.names):
        return _Loaded(Selection((), {}, "-p"), None, [])
    from hookpatch._plugins.host import Host  # here: a program without plugins does without pluggy
    from hookpatch._plugins.relations import check

    host = Host()
    for name in of_environment.names if _selection.on_error() == "exit" else ():
        check_allowed(find(name, of_environment.asked_by), of_environment.asked_by)
    options = options_of_words(words, Selection([*plugins, *of_environment.names], {}, "-p"), host, "add -p {name}")
    also = [name for name in of_environment.names if _selection.may_mean_any(name, options)]
    loaded = host.load(_selection.selection_of([*plugins, *also], options, "-p"))
    for name in set(of_environment.names).difference(also):
        with suppress(HookpatchError):  # reported when the program starts
            loaded += Host().load(_selection.selection_of([name], {}, of_environment.asked_by))
    check(host.relations, "-p", on=_plugins_of_environment())
    return _Loaded(Selection(plugins, options, "-p"), host, [patch for *_, patches in loaded for patch in patches])


def _is_judged(patch: Patch, folder: str) -> bool:
    """Return True if only the end of the program shows whether a patch had its effect: then the command waits.

    A required patch is judged whose module exists neither here nor in the program's folder.
    """
    if patch.required_calls or not patch.required or patch.module is None:
        return bool(patch.required_calls)
    if patch.is_rule:
        return True  # the number of matched slots is known at the end
    from hookpatch._engine.patch.module_lookup import presence_of  # here: few programs are judged

    is_missing = presence_of(patch.module).installed is False
    return is_missing and spec_of(patch.module.partition(".")[0], None, folders=[folder]) is None


def _plugins_of_environment() -> dict[Installed, Relations]:
    """Return the plugins that the environment selects; errors are reported when the program starts."""
    from hookpatch._plugins.relations import Relations

    plugins: dict[Installed, Relations] = {}
    for name in _selection.asked_names():
        with suppress(HookpatchError):
            plugins[find(name, _environment.PLUGINS)] = Relations()
    return plugins
