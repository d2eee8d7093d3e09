"""What was asked for, in words: plugins, options and policies, by arguments, the environment or the configuration.

It runs at interpreter start, so it imports nothing that is not there already.
"""

from __future__ import annotations

import os
import sys

from hookpatch import _environment
from hookpatch._environment import CONFIG, LOCK, ON_DRIFT, ON_ERROR, OPTIONS, PLUGINS, disabled, read, split_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final, Literal, TypeAlias

    from hookpatch._config import Config

    OnDrift: TypeAlias = Literal["warn", "skip", "error"]

_configs: Final[dict[str, Config]] = {}  # by path: a process keeps what it has read
_found: Final[list[str]] = []  # the path of a file that nobody has named


class Selection:
    """The plugin names and options a user asked for. Frozen by convention; one for each session.

    Attributes:
        names: plugin names in the order given, each once; ``name@distribution`` where one was named.
        options: options by plugin name, as given.
        asked_by: where they were asked for, for messages.
        options_by: the key of the configuration that has options for a plugin, by its name; likewise.
    """

    __slots__ = ("asked_by", "names", "options", "options_by")

    def __init__(
        self,
        names: Iterable[str],
        options: Mapping[str, Mapping[str, Any]],
        asked_by: str,
        options_by: Mapping[str, str] = {},
    ) -> None:
        by_normal_name: dict[str, str] = {}
        for name in names:
            by_normal_name.setdefault(normalise(name), name)
        self.names = tuple(by_normal_name.values())
        self.options = {name: dict(given) if hasattr(given, "keys") else given for name, given in options.items()}
        self.asked_by = asked_by
        self.options_by = dict(options_by)

    def __repr__(self) -> str:
        return f"Selection({list(self.names)}, {self.options}, asked_by={self.asked_by!r})"


def normalise(name: str) -> str:
    """Return the form in which two names are compared (PEP 503): lower case, one ``-`` for each run of ``-_.``."""
    dashed = name.lower().replace("_", "-").replace(".", "-")
    return "-".join(part for part in dashed.split("-") if part)


def asked_names() -> list[str]:
    """Return the names of the plugins that the environment asks for, sorted; none if they cannot be read."""
    try:
        return sorted(plugins_asked()[0])
    except Exception as error:
        from hookpatch.errors import HookpatchError  # at interpreter start mostly not needed

        if isinstance(error, HookpatchError):
            return []
        raise


def config() -> Config | None:
    """Return the configuration that holds here, None without one.

    Raises:
        SettingError: HOOKPATCH_CONFIG is not the absolute path of a file that is one.
    """
    path = read(CONFIG)
    if not path or disabled():
        return None
    if path not in _configs:
        from hookpatch import _imports

        with _imports.for_ourselves():
            from hookpatch._config import read_config  # it needs tomllib, and few processes have a configuration
        _configs[path] = read_config(path, CONFIG)
    return _configs[path]


def look_for_config() -> None:
    """Have the nearest pyproject.toml with a table of ours hold here and in what is started, if no file is named.

    It is looked for in the current folder and above.
    """
    if sys.flags.ignore_environment or disabled() or read(CONFIG):
        return
    from hookpatch._config import nearest_config

    try:
        path = nearest_config(os.getcwd())
    except FileNotFoundError:
        return  # the current folder has been deleted
    if path is not None:
        _found.append(path)
        _environment.take({CONFIG: path})


def config_was_found() -> bool:
    """Tell whether the configuration is one that was looked for, and not named."""
    return read(CONFIG) in _found


def plugins_asked() -> tuple[list[str], str]:
    """Return the names of the plugins that are asked for, and where: by the variable, else by the configuration."""
    text = read(PLUGINS)
    names = split_names(text)
    if not names and (known := config()) is not None and known.plugins:
        return known.plugins, known.where("plugins")
    return names, f"{PLUGINS}={text}"


def from_environment() -> Selection:
    """Return what the environment asks for, the configuration included.

    Raises:
        SettingError: HOOKPATCH_OPTIONS is not a JSON object of objects, or the configuration cannot be used.
    """
    names, asked_by = plugins_asked()
    return Selection(names, merged(names, _of_config(names), options_asked()), asked_by, _keys_of_config(names))


def selection_of(names: Iterable[str], options: Mapping[str, Mapping[str, Any]], asked_by: str) -> Selection:
    """Return what somebody asks for who names the plugins: with the options that are given for them everywhere.

    Those given here hold before those of the environment, and these before those of the configuration.

    Raises:
        SettingError: as ``from_environment``.
    """
    names = list(names)
    if not names:
        return Selection((), options, asked_by)
    of_environment = {name: given for name, given in options_asked().items() if is_any_of(name, names)}
    given = merged(names, _of_config(names), of_environment, options)
    return Selection(names, given, asked_by, _keys_of_config(names))


def merged(names: Iterable[str], *layers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return options by plugin, merged value by value; where two layers give one, the later has it.

    Args:
        names: the plugins that are asked for, in whose spelling each counts.
        layers: options by plugin.
    """
    names = list(names)
    found: dict[str, Any] = {}
    for layer in layers:
        for name, given in layer.items():
            meant = _meant(name, names)
            key = meant[0] if len(meant) == 1 else name
            found[key] = {**found.get(key, {}), **given} if hasattr(given, "keys") else given
    return found


def is_any_of(name: str, names: Iterable[str]) -> bool:
    """Tell whether a name, or ``name@distribution``, may mean the plugin that one of the names means."""
    return bool(_meant(name, names))


def _meant(name: str, names: Iterable[str]) -> list[str]:
    """Return those of the names that may mean the same plugin: with ``@distribution`` or without."""
    plain, _, distribution = normalise(name).partition("@")
    parts = [(other, *normalise(other).partition("@")[::2]) for other in names]
    return [other for other, own, of in parts if own == plain and (not of or not distribution or of == distribution)]


def _of_config(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the options that the configuration has for these plugins: it may have some for others."""
    names, known = list(names), config()
    return {} if known is None else {name: given for name, given in known.options.items() if is_any_of(name, names)}


def _keys_of_config(names: Iterable[str]) -> dict[str, str]:
    """Return the keys of the configuration that have options for these plugins, by their names."""
    names, known = list(names), config()
    found = {} if known is None else {name: known.where("options", name) for name in known.options}
    return {meant: key for name, key in found.items() for meant in _meant(name, names)}


def options_asked() -> dict[str, dict[str, Any]]:
    text = read(OPTIONS)
    if not text:
        return {}
    from hookpatch._json import parsed  # only when options are given
    from hookpatch.errors import SettingError

    form = 'it takes a JSON object by plugin, such as {"onnxsim_skip": {"passes": ["fuse_qkv"]}}'
    try:
        options = parsed(text)
    except ValueError as error:
        raise SettingError(OPTIONS, f"not JSON ({error}); {form}") from None
    if not isinstance(options, dict) or not all(isinstance(value, dict) for value in options.values()):
        raise SettingError(OPTIONS, f"not an object of objects; {form}")
    return options


def on_error() -> Literal["exit", "warn"]:
    """Return what becomes of a program whose environment asks for something that cannot be had.

    Raises:
        SettingError: HOOKPATCH_ON_ERROR holds another word.
    """
    match read(ON_ERROR) or ((known := config()) and known.on_error) or "exit":
        case "exit":
            return "exit"
        case "warn":
            return "warn"
        case word:
            from hookpatch.errors import SettingError

            raise SettingError(ON_ERROR, f"'{word}' is not a policy; it takes exit or warn")


def lock() -> tuple[str, OnDrift] | None:
    """Return the lock file that targets are compared with, and what becomes of a patch whose target has changed.

    None when no file was asked for. Its path is the same for all processes, whatever their current folders.

    Raises:
        SettingError: the lock file that is named is not there, or HOOKPATCH_ON_DRIFT holds another word.
    """
    path, asked_by = lock_path()
    if not path:
        return None
    if not os.path.isfile(path):
        from hookpatch.errors import SettingError

        raise SettingError(asked_by, f"there is no file {path}; 'hookpatch lock NAME...' writes one")
    path = os.path.abspath(path)
    if asked_by == LOCK:
        _environment.take({LOCK: path})
    return path, on_drift()


def lock_path() -> tuple[str, str]:
    """Return the lock file that is named, empty if none is, and where: by the variable, else by the configuration."""
    path = read(LOCK)
    if not path and (known := config()) is not None and known.lock:
        return known.lock, known.where("lock")
    return path, LOCK


def on_drift() -> OnDrift:
    """Return what becomes of a patch whose target is no longer what was locked.

    Raises:
        SettingError: HOOKPATCH_ON_DRIFT holds another word.
    """
    return drift_policy(read(ON_DRIFT) or ((known := config()) and known.on_drift) or "warn", ON_DRIFT)


def drift_policy(word: object, asked_by: str) -> OnDrift:
    """Return a policy that somebody has given as a word.

    Raises:
        SettingError: it is none.
    """
    match word:
        case "warn" | "skip" | "error":
            return word
    from hookpatch.errors import SettingError

    raise SettingError(asked_by, f"{word!r} is not a policy; it takes warn, skip or error")
