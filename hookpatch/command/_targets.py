"""What ``lock`` and ``check`` have in common: the plugins that are named, and a table of their targets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, Final, final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch import _selection
from hookpatch._check import Checked
from hookpatch._host import Host
from hookpatch._ledger import Asked
from hookpatch._lock import NAME, Lock, read_lock
from hookpatch._selection import Selection
from hookpatch.command._option_words import options_of_words
from hookpatch.errors import SettingError


@contextmanager
def imports_aside() -> Iterator[None]:
    """Have what libraries print when they are imported, and programs that they start, go to stderr: not into our JSON.

    By the file descriptor, for C code and other programs know no ``sys.stdout``.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@final
@dataclass(frozen=True, slots=True)
class Named:
    """The plugins that a command is for. Frozen.

    Attributes:
        names: their names.
        options: their options, by plugin.
        asked: their patches.
        distributions: the distributions that they come from.
    """

    names: tuple[str, ...]
    options: Mapping[str, Mapping[str, Any]]
    asked: list[Asked]
    distributions: tuple[str, ...]


def lock_of(path: str | None) -> Lock | None:
    """Return the lock file that is given, that of HOOKPATCH_LOCK or the configuration, or the current folder's, if any.

    Raises:
        SettingError: it cannot be read.
    """
    known = path or ((of_environment := _selection.lock()) and of_environment[0])
    return read_lock(known or NAME) if known or os.path.exists(NAME) else None


def named(command: str, names: Sequence[str], words: Sequence[str], lock: Lock | None) -> Named:
    """Return the plugins of these names; without names, those that a program has here; else those of the lock file.

    Loads them, imports no target.

    Raises:
        SettingError: there is none of all that, or an option cannot be read.
        SelectionError: a name is unknown.
        PluginError: a plugin cannot be loaded.
    """
    here, asked_by, host = _selection.from_environment(), f"hookpatch {command}", Host()
    if not names and here.names:
        names, asked_by, lock = here.names, here.asked_by, None  # with the options that they have here
    names = names or (lock.plugins if lock else ())
    if not names:
        problem = f"no plugin is named, and there is no {NAME} here that names some"
        raise SettingError(f"hookpatch {command}", f"{problem}; write it like 'hookpatch {command} fuse_qkv_off'")
    given = options_of_words(words, Selection(names, {}, asked_by), host, "name it, too: {name}")
    asked = _selection.selection_of(names, given, asked_by)
    locked = {name: of_then for name, of_then in (lock.options if lock else {}).items() if name in names}
    options = _selection.merged(names, locked, asked.options)
    loaded = host.load(Selection(names, options, asked_by, asked.options_by))
    patches = [Asked(patch, plugin.name, plugin.installed.origin) for _, plugin, found in loaded for patch in found]
    distributions = tuple(dict.fromkeys(plugin.installed.distribution for _, plugin, _ in loaded))
    return Named(asked.names, options, patches, distributions)


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


def print_targets(console: Console, targets: Iterable[Checked]) -> None:
    """Print a table of targets, and beneath it how the source of each has changed."""
    targets = list(targets)
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    table.add_column("target", overflow="fold")
    table.add_column("installed", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for one in targets:
        target = Text("\n").join([Text(one.target, style="cyan"), *map(Text, one.patches)])
        was = f"\nlocked {one.locked}" if one.locked not in (None, one.release) else ""
        table.add_row(target, f"{one.release or 'no distribution'}{was}", verdict(one))
    console.print(table)
    for one in targets:
        if one.diff:
            console.print(Text(f"\n{one.target}", style="bold"))
            for line in one.diff:
                console.print(Text(line, style=_style(line)), soft_wrap=True)


def verdict(one: Checked) -> Text:
    """Return what has become of a target, with the reasons."""
    words, style = WORDS[one.status]
    lines = [Text(words, style=style), *map(Text, one.reasons), *(Text(said, style="yellow") for said in one.warnings)]
    return Text("\n").join(lines)


def _style(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
