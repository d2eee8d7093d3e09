"""``hookpatch run``: run a program as python does, with plugins on."""

from __future__ import annotations

import os
import signal
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from hookpatch._bootstrap import environment as _environment
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.files import current_folder
from hookpatch._bootstrap.imports import spec_of
from hookpatch._bootstrap.installed import Installed, check_allowed, find, is_plugin, run_options
from hookpatch._bootstrap.program import INSTALLERS, known_program
from hookpatch._bootstrap.selection import Selection
from hookpatch._bootstrap.stderr import CALLS_STATUS, write_line
from hookpatch._plugins.variables import environment_with, variables
from hookpatch.command._targets import imports_aside, options_of_words
from hookpatch.errors import HookpatchError, SettingError

if TYPE_CHECKING:
    from hookpatch._engine.patch.patch import Patch
    from hookpatch._plugins.host import Host
    from hookpatch._plugins.relations import Relations

_SITECUSTOMIZE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_sitecustomize")
_PASSED_ON = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name)]
PROGRAM: Final = "SCRIPT | -m MODULE | -c CODE [ARGUMENTS]"
# Names, what the value is called, and help.
OPTIONS: Final[Sequence[tuple[tuple[str, ...], str, str]]] = (
    (("-p", "--plugin"), "NAME", "Switch a plugin on; may be repeated."),
    (("-o", "--option"), "PLUGIN.NAME=VALUE", "An option of a plugin; write a list with commas."),
    (("--report",), "FOLDER", "Let each process write a JSON report into this folder."),
    (("--count",), "", "Count the calls of each patch, and print the counts when a process ends."),
    (("-h", "--help"), "", "Show this message and exit."),
)
_NAMES: Final = {name: names[-1] for names, _, _ in OPTIONS for name in names}
_FLAGS: Final = {names[-1] for names, value, _ in OPTIONS if not value}


@final
class Misspelt(Exception):
    """The words behind ``hookpatch run`` cannot be read; the text says why. Written as click's errors are."""

    format_message = Exception.__str__


class Words(NamedTuple):
    """The words behind ``hookpatch run``: options by their long names, and the words of the program."""

    options: Mapping[str, list[str]]
    target: Sequence[str]
    of_plugin: tuple[str, str, str] | None  # a plugin, its option as written, and the value

    def last(self, option: str) -> str | None:
        """Return the value that was given last for an option; None if there is none."""
        return self.options[option][-1] if option in self.options else None


def parsed(words: Sequence[str]) -> Words:
    """Parse the words up to the script, ``-m`` or ``-c``; all later words belong to the program, as with python.

    Loads no plugin. Raise Misspelt for an unknown option: python's -I would switch hookpatch off in silence.
    """
    options: dict[str, list[str]] = {}
    declared, of_plugin, tail = run_options(), None, list(words)
    while tail and tail[0] != "--" and tail[0].startswith("-") and tail[0] != "-" and tail[0][:2] not in ("-m", "-c"):
        word = tail.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if name not in _NAMES and name not in declared:
            raise Misspelt(f"No such option: {word if word.startswith('--') else name}")
        if _NAMES.get(name) in _FLAGS:
            if equals:
                raise Misspelt(f"Option '{name}' takes no value")
            options[_NAMES[name]] = []
            continue
        if not equals and not tail:
            raise Misspelt(f"Option '{name}' requires an argument")
        value = value if equals else tail.pop(0)
        if name in declared:
            of_plugin = declared[name], name, value
        else:
            options.setdefault(_NAMES[name], []).append(value)
    return Words(options, tail[1:] if tail[:1] == ["--"] else tail, of_plugin)


def help_text() -> str:
    """Return the help: the docstring of ``run``, its options, and those that plugins declare."""
    import inspect  # here: a program that is run does without
    import textwrap

    of_plugins = [(f"{name} VALUE", f"Let plugin '{of}' run the program.") for name, of in run_options().items()]
    own = [(f"{', '.join(names)} {value}".rstrip(), line) for names, value, line in OPTIONS]
    lines = [f"Usage: hookpatch run [OPTIONS] {PROGRAM}", ""]
    lines += textwrap.indent(inspect.cleandoc(run.__doc__ or ""), "  ").splitlines()
    for title, rows in (("Options", own), ("Options of plugins", of_plugins)):
        width = max((len(words) for words, _ in rows), default=0) + 4
        lines += ["", f"{title}:"] if rows else []
        for words, line in rows:
            first = f"  {words}".ljust(width)
            lines += textwrap.wrap(line, 79, initial_indent=first, subsequent_indent=" " * width)
    return "\n".join(lines)


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
        return _status_of(_command_of(self.target), _ready({**_environment.without_ours(), **only}))

    def patched(self, options: Mapping[str, Mapping[str, Any]]) -> int:
        """Run the program as ``hookpatch run`` does, and count the calls; return the exit status.

        Args:
            options: further plugins with their options; their patches are outside all others.
        """
        all_options = {**self._selection.options, **options}
        environment = environment_with(self._selection.names, all_options, self._report, count=True, first=options)
        return _status_of(_command_of(self.target), _ready(environment))

    def write_line(self, message: str) -> None:
        """Write a line to stderr; flushes stdout first."""
        sys.stdout.flush()
        write_line(f"{self.option}: {message}")


def _command_of(target: Sequence[str]) -> list[str]:
    """Return the command that runs a program with the current interpreter and its flags."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # what multiprocessing uses
    return [sys.executable, *flags, *target]


def run(words: Sequence[str]) -> int:
    """Run a program as python does, with plugins on.

    Switches on the plugins of HOOKPATCH_PLUGINS, or without this variable the
    plugins of [tool.hookpatch] in pyproject.toml, and the plugins of -p.

    Example: hookpatch run -p fuse_qkv_off export.py --small
    """
    line = parsed(words)
    if "--help" in line.options:
        print(help_text())
        return 0
    if not line.target:
        raise Misspelt(f"Missing argument '{PROGRAM}'")
    target, report, count = line.target, line.last("--report"), "--count" in line.options
    if not (target[0].startswith("-") or os.path.exists(target[0])) and is_plugin(target[0]):
        raise Misspelt(f"'{target[0]}' is a plugin, and no file: write '-p {target[0]}'")
    with imports_aside():  # what a plugin prints when it is loaded is not the output of the program
        selection, host, patches = _loaded(line.options.get("--plugin", ()), line.options.get("--option", ()))
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
    command = _command_of(target)
    if (installer := known_program(command)) in INSTALLERS:
        write_line(f"{installer} runs without patches: an installer is never patched", kind="warning")
    environment = _ready(environment_with(selection.names, selection.options, report, count))
    sys.stdout.flush()
    sys.stderr.flush()
    # The folder that the program will have first on its path: a script's, or where one is.
    start = current_folder() or ""  # it may have been deleted
    folder = start if target[0].startswith("-") else os.path.dirname(os.path.join(start, target[0]))
    if os.name == "nt" or any(_is_judged(patch, folder) for patch in patches):  # exec on Windows returns at once
        return _status_of(command, environment)
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
    """Return True if the end of the program tells whether a patch had its effect: then the command waits for it.

    A required patch is judged whose module exists neither here nor in the program's folder.
    """
    if patch.required_calls or not patch.required or patch.module is None:
        return bool(patch.required_calls)
    if patch.is_rule:
        return True  # the end tells how many slots it has matched
    from hookpatch._engine.patch.module_lookup import presence_of  # here: few programs are judged

    is_missing = presence_of(patch.module).installed is False
    return is_missing and spec_of(patch.module.partition(".")[0], None, folders=[folder]) is None


def _status_of(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program; return its exit status, 128 + n after signal n, 70 in place of 0 if a required patch missed."""
    import tempfile  # here: most programs run in the place of this one
    from threading import Thread

    with tempfile.TemporaryDirectory(prefix="hookpatch-") as folder:
        note = os.path.join(folder, "calls_missed")
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)  # written to at once: a handler in Python would have to wait for child.wait()
        for number in (*_PASSED_ON, signal.SIGINT):  # the terminal sends SIGINT to the program, too
            signal.signal(number, lambda *_: None)  # not ignored: what is ignored here would be in the program, too
        child = subprocess.Popen(command, env={**environment, _environment.CALLS_MISSED: note})
        Thread(target=_pass_on, args=(read, child), daemon=True).start()
        status = child.wait()
        if status < 0:
            return 128 - status
        return status or (CALLS_STATUS if os.path.exists(note) else 0)


def _pass_on(numbers: int, child: subprocess.Popen[bytes]) -> None:
    """Send a child each signal whose number, a byte, can be read from a file descriptor."""
    while number := os.read(numbers, 1):
        if number[0] in _PASSED_ON:
            child.send_signal(number[0])


def _plugins_of_environment() -> dict[Installed, Relations]:
    """Return the plugins that the environment selects; errors are reported when the program starts."""
    from hookpatch._plugins.relations import Relations

    plugins: dict[Installed, Relations] = {}
    for name in _selection.asked_names():
        with suppress(HookpatchError):
            plugins[find(name, _environment.PLUGINS)] = Relations()
    return plugins


def _ready(environment: dict[str, str]) -> dict[str, str]:
    """Add our sitecustomize to an environment without the start-up file.

    The file is missing if hookpatch was installed with ``--target``, or is only on PYTHONPATH.
    """
    if _has_startup_file():
        return environment
    folders = (_SITECUSTOMIZE, environment.get("PYTHONPATH", ""))
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def _has_startup_file() -> bool:
    """Return True if the interpreter reads the start-up file; from Python 3.18 on False (PEP 829)."""
    if sys.version_info >= (3, 18):
        return False
    folders = [*site.getsitepackages(), site.getusersitepackages() if site.ENABLE_USER_SITE else ""]
    return any(folder and os.path.exists(os.path.join(folder, "hookpatch.pth")) for folder in folders)
