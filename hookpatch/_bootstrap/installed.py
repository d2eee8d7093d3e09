"""Find installed plugins: entry points of the group ``hookpatch``, read from the files themselves.

importlib.metadata.entry_points costs 40 ms at interpreter start, this file some tenths of one. The loader of pluggy
imports every plugin, and takes the first of two equal names in silence.
"""

from __future__ import annotations

import os
import sys

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt
from hookpatch._bootstrap.selection import PluginName, normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

GROUP: Final = "hookpatch"
WAITS_FOR: Final = "hookpatch.waits_for"
RUN_OPTIONS: Final = "hookpatch.run_options"
LEFT: Final = "~"


class Installed:
    """An entry point of an installed distribution, not imported. Frozen by convention.

    ``waits_for`` is the module or package with all targets of the plugin, as declared by the distribution, or empty.
    """

    __slots__ = ("_key", "distribution", "module", "name", "version", "waits_for")

    def __init__(self, name: str, module: str, distribution: str, version: str, waits_for: str = "") -> None:
        self.name: Final = name
        self.module: Final = module
        self.distribution: Final = distribution
        self.version: Final = version
        self.waits_for: Final = waits_for
        self._key: Final = (name, module, distribution, version, waits_for)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Installed) and self._key == other._key

    def __lt__(self, other: Installed) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Installed{self._key}"

    @property
    def facts(self) -> tuple[str, str, str, str, str]:
        """The arguments that make an equal object."""
        return self._key

    @property
    def origin(self) -> str:
        """The distribution with its version, for messages."""
        return f"{self.distribution} {self.version}".rstrip()  # hookpatch's own plugin has no version of its own

    def answers_to(self, name: str) -> bool:
        """Return True if a name, or ``name@distribution``, means this plugin."""
        return PluginName(name).means(self.name, self.distribution)


_cache: dict[tuple[tuple[str, int], ...], tuple[Installed, ...]] = {}


def installed() -> tuple[Installed, ...]:
    """Return the plugins installed in the folders of ``sys.path``, by name; the current folder is left out.

    Of a distribution installed twice the first counts, as for importlib.metadata.
    """
    folders = _folders()
    stamp = tuple((folder, _changed(folder)) for folder in folders)
    plugins = _cache.get(stamp)
    if plugins is None:
        _cache.clear()
        plugins = _cache[stamp] = tuple(sorted(_scan(folders)))
    return plugins


def is_plugin(name: str) -> bool:
    """Return True if a plugin of this name is installed."""
    return any(plugin.answers_to(name) for plugin in installed())


def run_options() -> dict[str, str]:
    """Return the options of ``hookpatch run`` declared by distributions, each with the plugin's name."""
    options = (groups.get(RUN_OPTIONS, {}) for _, _, groups in _declared(_folders()))
    return {f"--{name}": plugin for of_one in options for name, plugin in sorted(of_one.items())}


def _folders() -> list[str]:
    # sys.path names a zip file that mostly does not exist: the look at an error takes a millisecond.
    return [folder for folder in dict.fromkeys(sys.path) if folder and os.access(folder, os.R_OK)]


def find(name: str, asked_by: str) -> Installed:
    """Return the installed plugin of a name, or of ``name@distribution``; raise UnknownPlugin or AmbiguousPlugin."""
    plugins = installed()
    matches = [plugin for plugin in plugins if plugin.answers_to(name)]
    exact = [plugin for plugin in matches if plugin.name == name.partition("@")[0]]
    if len(exact) == 1 and len({plugin.distribution for plugin in matches}) == 1:
        return exact[0]  # one distribution with two spellings of a name
    if len(matches) == 1:
        return matches[0]
    from hookpatch.errors import AmbiguousPlugin, UnknownPlugin  # at interpreter start mostly not needed

    if not matches:
        raise UnknownPlugin(name, asked_by, sorted({plugin.name for plugin in plugins}))
    raise AmbiguousPlugin(name, asked_by, [plugin.distribution for plugin in matches])


def check_config() -> None:
    """Raise UnknownPlugin if the configuration has options for a plugin not installed: they would have no effect."""
    if (config := selection.config()) is None:
        return
    for name in config.options:
        if not any(plugin.answers_to(name) for plugin in installed()):
            find(name, config.where("options", name))  # which raises


def check_allowed(plugin: Installed, asked_by: str) -> None:
    """Raise NotAllowed for a plugin missing from an allow list: of the configuration, or of this environment.

    The list of the environment is the file ``<sys.prefix>/hookpatch.allow``: a name, or ``name@distribution``, a line;
    ``#`` begins a comment.
    """
    config = selection.config()
    path = os.path.join(sys.prefix, "hookpatch.allow")
    if config is not None and config.allow is not None and not any(map(plugin.answers_to, config.allow)):
        problem = f"{config.where('allow')} does not name it"
    else:
        try:
            os.stat(path)  # mostly there is no such file, and no code to read the file is needed
            from hookpatch._bootstrap.files import read_given

            lines = read_given(path).decode().splitlines()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            if is_interrupt(error):
                raise
            problem = f"{path}: it cannot be read ({error})"
        else:
            names = (line.partition("#")[0].strip() for line in lines)
            if any(plugin.answers_to(name) for name in names if name):
                return
            problem = f"{path} does not name it"
    from hookpatch.errors import NotAllowed  # at interpreter start mostly not needed

    raise NotAllowed(plugin.name, plugin.origin, asked_by, problem)


def _changed(folder: str) -> int:
    with ErrorsOfCode(OSError):
        return os.stat(folder).st_mtime_ns
    return 0


def _scan(folders: list[str]) -> Iterator[Installed]:
    for distribution, version, groups in _declared(folders):
        waits_for = groups.get(WAITS_FOR, {})
        for plugin, module in groups.get(GROUP, {}).items():
            yield Installed(plugin, module, distribution, version or "unknown", waits_for.get(plugin, ""))


def _declared(folders: list[str]) -> Iterator[tuple[str, str, dict[str, dict[str, str]]]]:
    """Yield each distribution with the version, and with the entry points by group and name."""
    distributions: set[str] = set()
    for folder in folders:
        for distribution, entries in distributions_in(folder).items():
            if distribution not in distributions:
                distributions.add(distribution)
                # An interrupted installation leaves two folders. The newer folder belongs to the installed modules.
                name = entries[0] if len(entries) == 1 else max(entries, key=lambda name: _changed(f"{folder}/{name}"))
                version = name.rpartition(".")[0].partition("-")[2].partition("-")[0]
                yield distribution, version, _entry_points(f"{folder}/{name}/entry_points.txt")


def distributions_in(folder: str) -> dict[str, list[str]]:
    """Return the dist-info folders in a folder by distribution: more than one after an interrupted installation."""
    dist_infos: dict[str, list[str]] = {}
    for name in _names_in(folder):
        stem, _, kind = name.rpartition(".")  # a third of the time of splitext; a folder has a thousand names
        if kind in ("dist-info", "egg-info") and stem and not name.startswith(LEFT):
            dist_infos.setdefault(normalise(stem.partition("-")[0]), []).append(name)
    return dist_infos


def leftovers_in(folder: str) -> list[str]:
    """Return the leftovers of an interrupted pip in a folder: names of files about to be deleted begin with ``~``."""
    return [name for name in _names_in(folder) if name.startswith(LEFT)]


def _names_in(folder: str) -> list[str]:
    with ErrorsOfCode(OSError):  # a zip file, or a missing folder
        return sorted(os.listdir(folder))
    return []


def _entry_points(path: str) -> dict[str, dict[str, str]]:
    """Return the entry points in a distribution's file: by group, and within a group by name."""
    groups: dict[str, dict[str, str]] = {}
    text = ""
    if not os.access(path, os.R_OK):  # most distributions: an error and its look take ten times as long
        return groups
    with ErrorsOfCode(OSError):
        text = _text_of(path)
    group: dict[str, str] = {}
    for line in map(str.strip, text.splitlines() if GROUP in text else ()):
        if line.startswith("["):
            group = groups.setdefault(line.strip("[] "), {})
        elif "=" in line and not line.startswith(("#", ";")):
            name, _, module = line.partition("=")
            group[name.strip()] = module.partition("[")[0].strip()
    return groups


def _text_of(path: str) -> str:
    """Return the text of a file. A pipe or a device has no size: it is empty, and nothing waits for its writer."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.read(file, os.fstat(file).st_size).decode(errors="replace")  # a third of the time of ``open``
    finally:
        os.close(file)
