"""The requested plugins, options and policies: from arguments, the environment and the configuration."""

from __future__ import annotations

import os
import sys

from hookpatch._bootstrap import environment
from hookpatch._bootstrap.environment import CONFIG, LOCK, ON_DRIFT, ON_ERROR, OPTIONS, PLUGINS, disabled, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final, Literal, TypeAlias

    from hookpatch._bootstrap.config import Config

    OnDrift: TypeAlias = Literal["warn", "skip", "error"]

_configs: Final[dict[str, Config]] = {}  # by path: a process keeps a configuration once read
_config_paths: Final[list[str]] = []  # the path found by ``look_for_config``


class Selection:
    """The plugin names, each once, and the options requested for one session. Frozen by convention.

    Messages name ``asked_by``, the request, and ``options_by``, keys of the configuration with options, by plugin name.
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
        self.options = {name: dict(values) if hasattr(values, "keys") else values for name, values in options.items()}
        self.asked_by = asked_by
        self.options_by = dict(options_by)

    def __repr__(self) -> str:
        return f"Selection({list(self.names)}, {self.options}, asked_by={self.asked_by!r})"


def normalise(name: str) -> str:
    """Return the form in which two names are compared (PEP 503): lower case, one ``-`` for each run of ``-_.``."""
    dashed = name.lower().replace("_", "-").replace(".", "-")
    while "--" in dashed:
        dashed = dashed.replace("--", "-")
    return dashed.strip("-")


class PluginName:
    """The name of a plugin, ``fuse_qkv`` or ``fuse_qkv@distribution``, both parts normalised (PEP 503)."""

    __slots__ = ("distribution", "name")

    def __init__(self, text: str) -> None:
        self.name, _, self.distribution = normalise(text).partition("@")

    def means(self, name: str, distribution: str) -> bool:
        """Return True if this name means a plugin of a distribution."""
        return self.name == normalise(name) and self.distribution in ("", normalise(distribution))

    def may_mean(self, text: str) -> bool:
        """Return True if another name may mean the same plugin: one of the names may leave out the distribution."""
        other = PluginName(text)
        distributions = {self.distribution, other.distribution} - {""}
        return self.name == other.name and len(distributions) < 2


def asked_names() -> list[str]:
    """Return the names of the plugins requested by the environment, sorted; an empty list if they cannot be read."""
    try:
        return sorted(plugins_asked()[0])
    except Exception as error:
        from hookpatch.errors import HookpatchError  # at interpreter start mostly not needed

        if isinstance(error, HookpatchError):
            return []
        raise


def config() -> Config | None:
    """Return the configuration named by HOOKPATCH_CONFIG, None without one; raise SettingError if it is unusable."""
    path = read(CONFIG)
    if not path or disabled():
        return None
    if path not in _configs:
        from hookpatch._bootstrap import imports

        with imports.for_ourselves():
            from hookpatch._bootstrap.config import read_config  # imports tomllib, which few processes need
        _configs[path] = read_config(path, CONFIG)
    return _configs[path]


def look_for_config() -> None:
    """Set HOOKPATCH_CONFIG, if unset, to the nearest pyproject.toml with our table: in the current folder or above."""
    if sys.flags.ignore_environment or disabled() or read(CONFIG):
        return
    from hookpatch._bootstrap.config import nearest_config

    try:
        path = nearest_config(os.getcwd())
    except FileNotFoundError:
        return  # the current folder has been deleted
    if path is not None:
        _config_paths.append(path)
        environment.set_variables({CONFIG: path})


def config_was_found() -> bool:
    """Return True if ``look_for_config`` found the configuration."""
    return read(CONFIG) in _config_paths


def plugins_asked() -> tuple[list[str], str]:
    """Return the requested plugin names, and the setting: HOOKPATCH_PLUGINS, else the configuration."""
    text = read(PLUGINS)
    names = environment.split_names(text)
    if not names and (file := config()) is not None and file.plugins:
        return file.plugins, file.where("plugins")
    return names, f"{PLUGINS}={text}"


def from_environment() -> Selection:
    """Return the selection of the environment, the configuration included; raise SettingError if it is unusable."""
    names, asked_by = plugins_asked()
    return Selection(names, merged(names, _of_config(names), options_asked()), asked_by, _keys_of_config(names))


def selection_of(names: Iterable[str], options: Mapping[str, Mapping[str, Any]], asked_by: str) -> Selection:
    """Return the selection of a call; raise SettingError as ``from_environment`` does.

    Options of the call win over options of the environment, and these over options of the configuration.
    """
    names = list(names)
    if not names:
        return Selection((), options, asked_by)
    of_environment = {name: values for name, values in options_asked().items() if may_mean_any(name, names)}
    merged_options = merged(names, _of_config(names), of_environment, options)
    return Selection(names, merged_options, asked_by, _keys_of_config(names))


def merged(names: Iterable[str], *layers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return options by plugin, merged value by value: later layers win, and plugins are spelled as in ``names``."""
    names = list(names)
    options: dict[str, Any] = {}
    for layer in layers:
        for name, values in layer.items():
            meant = [*filter(PluginName(name).may_mean, names)]
            key = meant[0] if len(meant) == 1 else name
            options[key] = {**options.get(key, {}), **values} if hasattr(values, "keys") else values
    return options


def may_mean_any(name: str, names: Iterable[str]) -> bool:
    """Return True if a name may mean the same plugin as one of the other names."""
    return any(map(PluginName(name).may_mean, names))


def _of_config(names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the options of these plugins in the configuration."""
    file = config()
    return {} if file is None else {name: values for name, values in file.options.items() if may_mean_any(name, names)}


def _keys_of_config(names: list[str]) -> dict[str, str]:
    """Return the keys of the configuration with the options of these plugins, by plugin name."""
    file = config()
    keys = {} if file is None else {name: file.where("options", name) for name in file.options}
    return {meant: key for name, key in keys.items() for meant in filter(PluginName(name).may_mean, names)}


def options_asked() -> dict[str, dict[str, Any]]:
    """Return the options in HOOKPATCH_OPTIONS, by plugin name."""
    text = read(OPTIONS)
    if not text:
        return {}
    from hookpatch._bootstrap.json import parsed  # only when options are given
    from hookpatch.errors import SettingError

    form = 'write a JSON object by plugin, such as {"onnxsim_skip": {"passes": ["fuse_qkv"]}}'
    try:
        options = parsed(text)
    except ValueError as error:
        raise SettingError(OPTIONS, f"not JSON ({error}); {form}") from None
    if not isinstance(options, dict) or not all(isinstance(value, dict) for value in options.values()):
        raise SettingError(OPTIONS, f"not an object of objects; {form}")
    return options


def on_error() -> Literal["exit", "warn"]:
    """Return the policy for a program whose requested plugins or patches cannot be had."""
    match read(ON_ERROR) or ((file := config()) and file.on_error) or "exit":
        case "exit" | "warn" as word:
            return word
        case word:
            from hookpatch.errors import SettingError

            raise SettingError(ON_ERROR, f"'{word}' is not a policy; it takes exit or warn")


def lock() -> tuple[str, OnDrift] | None:
    """Return the lock file, as an absolute path for child processes too, and the policy for drift; None without a file.

    Raise SettingError if the lock file does not exist, or the policy is no policy, with a lock file and without.
    """
    path, asked_by = lock_path()
    policy = on_drift()
    if not path:
        return None
    if not os.path.isfile(path):
        from hookpatch.errors import SettingError

        raise SettingError(asked_by, f"there is no file {path}; 'hookpatch lock NAME...' writes one")
    path = os.path.abspath(path)
    if asked_by == LOCK:
        environment.set_variables({LOCK: path})
    return path, policy


def lock_path() -> tuple[str, str]:
    """Return the lock file, empty if none is named, and the setting: HOOKPATCH_LOCK, else the configuration."""
    path = read(LOCK)
    if not path and (file := config()) is not None and file.lock:
        return file.lock, file.where("lock")
    return path, LOCK


def on_drift() -> OnDrift:
    """Return the policy for a patch whose target differs from the lock file."""
    return drift_policy(read(ON_DRIFT) or ((file := config()) and file.on_drift) or "warn", ON_DRIFT)


def drift_policy(word: object, asked_by: str) -> OnDrift:
    """Return a word as a policy for drift; raise SettingError for any other word."""
    match word:
        case "warn" | "skip" | "error":
            return word
    from hookpatch.errors import SettingError

    raise SettingError(asked_by, f"{word!r} is not a policy; it takes warn, skip or error")
