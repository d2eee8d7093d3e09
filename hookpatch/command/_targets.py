"""The plugins, options and lock file that the words of a command name. Without typer, which ``run`` does without."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import find
from hookpatch._bootstrap.selection import PluginName, Selection, normalise
from hookpatch.errors import SettingError

if TYPE_CHECKING:
    from hookpatch._engine.lock.lockfile import Lock
    from hookpatch._plugins.host import Host
    from hookpatch._session.ledger import Requested


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
    from hookpatch._engine.lock.lockfile import NAME, read_lock

    path = path or ((setting := selection.lock()) and setting[0])
    return read_lock(path or NAME) if path or os.path.exists(NAME) else None


def load_named(command: str, names: Sequence[str], words: Sequence[str], lock: Lock | None) -> Named:
    """Load the named plugins; without names the plugins of the environment, else the plugins of the lock file.

    Imports no target.
    """
    from hookpatch._engine.lock.lockfile import NAME
    from hookpatch._plugins.host import Host
    from hookpatch._session.ledger import Requested

    environment, asked_by, host = selection.from_environment(), f"hookpatch {command}", Host()
    if not names and environment.names:
        names, asked_by, lock = environment.names, environment.asked_by, None  # with the options of the environment
    names = names or (lock.plugins if lock else ())
    if not names:
        problem = f"no plugin is named, and no {NAME} is here to name one"
        raise SettingError(f"hookpatch {command}", f"{problem}; write it like 'hookpatch {command} fuse_qkv_off'")
    of_words = options_of_words(words, Selection(names, {}, asked_by), host, "name it, too: {name}")
    selected = selection.selection_of(names, of_words, asked_by)
    locked = {name: options for name, options in (lock.options if lock else {}).items() if name in names}
    options = selection.merged(names, locked, selected.options)
    loaded = host.load(Selection(names, options, asked_by, selected.options_by))
    requests = [
        Requested(patch, plugin.name, plugin.installed.origin) for _, plugin, patches in loaded for patch in patches
    ]
    return Named(selected.names, options, requests)


def options_of_words(words: Iterable[str], selection: Selection, host: Host, way: str) -> dict[str, dict[str, Any]]:
    """Return typed options by plugin from words such as ``onnxsim_skip.passes=fuse_qkv``.

    ``way`` is the advice for a plugin that is not selected, with the placeholder ``{name}``.
    """
    from hookpatch._plugins.options import option_from_text  # here: imports msgspec

    options: dict[str, dict[str, Any]] = {}
    for word in words:
        name, dot, setting = word.partition(".")
        key, equals, value = setting.partition("=")
        if "." not in word.partition("=")[0] and "=" in word and selection.names:
            raise SettingError("-o", f"'{word}' names no plugin; write {selection.names[0]}.{word}")
        if not (dot and equals and name and key):
            raise SettingError(
                "-o", f"'{word}' cannot be read; write it like onnxsim_skip.passes=fuse_qkv,fuse_bn_into_conv"
            )
        selected = [plugin for plugin in selection.names if PluginName(plugin).name == normalise(name)]
        if not selected:
            raise SettingError("-o", f"'{word}' is for a plugin that is not switched on; {way.format(name=name)}")
        plugin = host.plugin(find(selected[0], selection.asked_by), selection.asked_by)
        typed = option_from_text(plugin.options_type, key, value, plugin.name, plugin.installed.origin)
        options.setdefault(plugin.name, {})[key] = typed
    return options


def words_of(options: Mapping[str, Mapping[str, Any]], way: str) -> list[str]:
    """Return options as words for ``-o`` of another process; refuses tables, and lists with a comma in an entry."""
    return [f"{name}.{key}={_text(value, way, name, key)}" for name in options for key, value in options[name].items()]


def _text(value: Any, way: str, name: str, key: str) -> str:
    if isinstance(value, (list, tuple)) and not any("," in str(item) for item in value):
        return ",".join(_text(item, way, name, key) for item in value)
    if isinstance(value, (list, tuple, Mapping)):
        raise SettingError(way, f"the option {key} of '{name}' cannot be handed on as {name}.{key}=VALUE: {value!r}")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
