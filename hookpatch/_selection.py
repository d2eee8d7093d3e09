"""Which plugins and options were asked for, in words; the only file that reads the environment.

It runs at interpreter start, so it imports nothing that is not there already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final, Literal, TypeAlias

    from hookpatch._config import Config

    OnDrift: TypeAlias = Literal["warn", "skip", "error"]

PLUGINS: Final = "HOOKPATCH_PLUGINS"
OPTIONS: Final = "HOOKPATCH_OPTIONS"
CONFIG: Final = "HOOKPATCH_CONFIG"
DISABLE: Final = "HOOKPATCH_DISABLE"
ON_ERROR: Final = "HOOKPATCH_ON_ERROR"
REPORT: Final = "HOOKPATCH_REPORT"
COUNT: Final = "HOOKPATCH_COUNT"
LOCK: Final = "HOOKPATCH_LOCK"
ON_DRIFT: Final = "HOOKPATCH_ON_DRIFT"
INHERIT: Final = "HOOKPATCH_INHERIT"  # what a block hands on to the programs that it starts; not for people

FIRST: Final = "HOOKPATCH_FIRST"  # the process that was asked for plugins, and whose children are; not for people
ROOT: Final = "HOOKPATCH_REPORT_ROOT"  # the run of which reports are; not for people

# Of torchrun and Lightning, Open MPI, MPICH and Intel MPI, SLURM.
_RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

_configs: Final[dict[str, Config]] = {}  # by path: a process keeps what it has read
_found: Final[list[str]] = []  # the path of a file that nobody has named

_before: Final[list[str | None]] = []  # what INHERIT was before we set it; empty while we have not


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


def read(variable: str) -> str:
    """Return a variable of ours, empty when unset or when the interpreter ignores the environment (-E, -I)."""
    return "" if sys.flags.ignore_environment else os.environ.get(variable, "").strip()


def split_names(text: str) -> list[str]:
    """Return the names in a comma list, stripped, empty ones dropped."""
    return [name for part in text.split(",") if (name := part.strip())]


def asked() -> bool:
    """Tell whether the environment asks for anything, or a block that started this process hands something on."""
    return bool(split_names(read(PLUGINS)) or read(INHERIT) or read(CONFIG)) and not disabled()


def asked_names() -> list[str]:
    """Return the names of the plugins that the environment asks for, sorted; none if they cannot be read."""
    try:
        return sorted(_names()[0])
    except Exception as error:
        from hookpatch.errors import HookpatchError  # at interpreter start mostly not needed

        if isinstance(error, HookpatchError):
            return []
        raise


def disabled() -> bool:
    """Tell whether the kill switch is set: no patch is applied, whoever asks for it."""
    return read(DISABLE) not in ("", "0")


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
        os.environ[CONFIG] = path


def config_was_found() -> bool:
    """Tell whether the configuration is one that was looked for, and not named."""
    return read(CONFIG) in _found


def _names() -> tuple[list[str], str]:
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
    names, asked_by = _names()
    return Selection(names, merged(names, _of_config(names), _options()), asked_by, _keys_of_config(names))


def selection_of(names: Iterable[str], options: Mapping[str, Mapping[str, Any]], asked_by: str) -> Selection:
    """Return what somebody asks for who names the plugins: with the options that are given for them everywhere.

    Those given here hold before those of the environment, and these before those of the configuration.

    Raises:
        SettingError: as ``from_environment``.
    """
    names = list(names)
    if not names:
        return Selection((), options, asked_by)
    of_environment = {name: given for name, given in _options().items() if is_any_of(name, names)}
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


def _options() -> dict[str, dict[str, Any]]:
    text = read(OPTIONS)
    if not text:
        return {}
    import json  # only when options are given

    from hookpatch.errors import SettingError

    form = 'it takes a JSON object by plugin, such as {"onnxsim_skip": {"passes": ["fuse_qkv"]}}'
    try:
        options = json.loads(text)
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
        os.environ[LOCK] = path
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


def report_folder() -> str | None:
    """Return the folder in which each process leaves its report, or None when none was asked for."""
    return read(REPORT) or None


def report_root() -> tuple[bool, str]:
    """Return whether this is the first process of a run, and the run's name, which that one gives to all.

    The folder of the reports is the same for all, too, whatever their current folders.
    """
    import time

    os.environ[REPORT] = os.path.abspath(os.environ[REPORT])
    own = f"{host()}-{os.getpid()}-{time.time_ns()}"
    return own == os.environ.setdefault(ROOT, own), os.environ[ROOT]


def is_first() -> bool:
    """Tell whether the plugins were asked for here, and not inherited from a process that was patched itself."""
    return bool(asked_names()) and os.environ.setdefault(FIRST, str(os.getpid())) == str(os.getpid())


def host() -> str:
    """Return this machine's name in its network."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def rank() -> int | None:
    """Return this process's number among those that a launcher has started together, None if there is none."""
    found = (os.environ.get(variable, "") for variable in _RANKS)
    return next((int(text) for text in found if text.isdecimal()), None)


def counts() -> bool:
    """Tell whether calls are to be counted."""
    return read(COUNT) not in ("", "0")


def variables(selection: Selection, report: str | None = None, count: bool = False) -> dict[str, str]:
    """Return the variables that ask for a selection.

    Raises:
        SettingError: an option is none that JSON can hold.
    """
    import json

    found = {PLUGINS: ",".join(selection.names)}
    if selection.options:
        try:
            found[OPTIONS] = json.dumps(selection.options)
        except (TypeError, ValueError) as error:
            from hookpatch.errors import SettingError

            raise SettingError("options", f"an environment variable takes what JSON can hold: {error}") from None
    if report is not None:
        found[REPORT] = os.path.abspath(report)
    if count:
        found[COUNT] = "1"
    return found


def environment_with(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, Any]],
    report: str | None = None,
    count: bool = False,
    first: Iterable[str] = (),
) -> dict[str, str]:
    """Return a copy of the environment that asks for these plugins too: ``first``, what it asks for, ``names``."""
    asked = _names()[0]
    wanted = [*first, *asked, *names]
    found = variables(Selection(wanted, merged(wanted, _options(), options), ""), report, count)
    if len(wanted) == len(asked) and not split_names(read(PLUGINS)):
        del found[PLUGINS]  # they are those of the configuration, which messages are to name
    inherited = {name: value for name, value in os.environ.items() if name != FIRST}  # it begins a tree of its own
    return {**inherited, **found}


def take(environment: Mapping[str, str]) -> None:
    """Set what an environment has, for this process and those that it starts."""
    os.environ.update(environment)


def inherited() -> str:
    """Return what a block that started this process hands on to it, empty if nothing."""
    return read(INHERIT)


def take_inherited() -> str:
    """Return it, and have the programs that this process starts inherit nothing of it."""
    text = inherited()
    os.environ.pop(INHERIT, None)
    return text


def hand_on(text: str | None) -> None:
    """Have the programs that this process starts from now on inherit something; None: what they did before."""
    if text is not None:
        if not _before:
            _before.append(os.environ.get(INHERIT))
        os.environ[INHERIT] = text
    elif _before:
        (before,) = _before
        _before.clear()
        if before is None:
            os.environ.pop(INHERIT, None)
        else:
            os.environ[INHERIT] = before


def handing_on(text: str | None) -> dict[str, str]:
    """Return a copy of the environment in which something is handed on."""
    return {**os.environ, INHERIT: text or ""}


def without_ours() -> dict[str, str]:
    """Return a copy of the environment that asks for nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}


def forget() -> None:
    """Take our variables out of this process's environment, so that nothing it starts is patched either."""
    for variable in (PLUGINS, OPTIONS, CONFIG, INHERIT):
        os.environ.pop(variable, None)
