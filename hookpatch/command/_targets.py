"""Parts that ``lock`` and ``check`` share: the selected plugins, and a table of their targets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.selection import Selection
from hookpatch._engine.lock.lockfile import NAME, Lock, read_lock
from hookpatch._inspect.check import Checked
from hookpatch._plugins.host import Host
from hookpatch._session.ledger import Requested
from hookpatch.command._arguments import FOLD, options_of_words, print_table
from hookpatch.errors import SettingError


@contextmanager
def imports_aside() -> Iterator[None]:
    """Redirect stdout to stderr while plugins and libraries are imported: their output must not mix with ours.

    Redirects the file descriptor, too: C code and child processes do not use ``sys.stdout``.
    """
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


class Named(NamedTuple):
    """The plugins that a command applies to, with their options and patches."""

    names: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    requests: list[Requested]


def lock_of(path: str | None) -> Lock | None:
    """Read the lock file: at ``path``, else of HOOKPATCH_LOCK or the configuration, else in the current folder."""
    path = path or ((setting := selection.lock()) and setting[0])
    return read_lock(path or NAME) if path or os.path.exists(NAME) else None


def named(command: str, names: Sequence[str], words: Sequence[str], lock: Lock | None) -> Named:
    """Load the named plugins; without names the plugins of the environment, else the plugins of the lock file.

    Imports no target.
    """
    environment, asked_by, host = selection.from_environment(), f"hookpatch {command}", Host()
    if not names and environment.names:
        names, asked_by, lock = environment.names, environment.asked_by, None  # with the options of the environment
    names = names or (lock.plugins if lock else ())
    if not names:
        problem = f"no plugin is named, and there is no {NAME} here that names some"
        raise SettingError(f"hookpatch {command}", f"{problem}; write it like 'hookpatch {command} fuse_qkv_off'")
    given = options_of_words(words, Selection(names, {}, asked_by), host, "name it, too: {name}")
    selected = selection.selection_of(names, given, asked_by)
    locked = {name: options for name, options in (lock.options if lock else {}).items() if name in names}
    options = selection.merged(names, locked, selected.options)
    loaded = host.load(Selection(names, options, asked_by, selected.options_by))
    requests = [
        Requested(patch, plugin.name, plugin.installed.origin) for _, plugin, patches in loaded for patch in patches
    ]
    return Named(selected.names, options, requests)


WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "fits": ("fits", "green"),
    "same": ("same", "green"),
    "compatible": ("changed, and takes what it took", "yellow"),
    "unlocked": ("fits, not in the lock file", "yellow"),
    "skipped": ("does not fit, skipped", "yellow"),
    "changed": ("changed", "red"),
    "unfit": ("does not fit", "red"),
    "broken": ("cannot be imported", "red"),
    "gone": ("gone", "red"),
}


def print_targets(console: Console, targets: Sequence[Checked]) -> None:
    """Print a table of targets, then the source diffs of the changed targets."""
    print_table(console, dict.fromkeys(("target", "installed", "verdict"), FOLD), map(_row, targets))
    for target in targets:
        if target.diff:
            console.print(Text(f"\n{target.target}", style="bold"))
            for line in target.diff:
                style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
                console.print(Text(line, style=style), soft_wrap=True)


def _row(checked: Checked) -> tuple[Text, str, Text]:
    target = Text("\n").join([Text(checked.target, style="cyan"), *map(Text, checked.patches)])
    locked = f"\nlocked {checked.locked}" if checked.locked not in (None, checked.release) else ""
    words, style = WORDS[checked.status]
    warnings = (Text(warning, style="yellow") for warning in checked.warnings)
    verdict = Text("\n").join([Text(words, style=style), *map(Text, checked.reasons), *warnings])
    return target, f"{checked.release or 'no distribution'}{locked}", verdict
