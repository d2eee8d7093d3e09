"""Which plugins are installed: entry points of the group ``hookpatch``, read from the files themselves.

Own, because importlib.metadata.entry_points costs 40 ms at interpreter start and this some tenths of one, and because
pluggy's loader imports every plugin and lets the first of two equal names win in silence.
"""

from __future__ import annotations

import os
import sys

from hookpatch import _selection
from hookpatch._selection import normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

GROUP: Final = "hookpatch"
WAITS_FOR: Final = "hookpatch.waits_for"


class Installed:
    """An entry point of an installed distribution; nothing of it is imported. Frozen by convention.

    Attributes:
        name: the plugin's name.
        module: the module that is the plugin.
        distribution: the distribution's name.
        version: its version.
        waits_for: the module or package that has all that it patches, as its distribution declares; empty if it does
            not. Until that is imported the plugin need not be.
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
    def origin(self) -> str:
        """The distribution with its version, for messages."""
        return f"{self.distribution} {self.version}"

    def answers_to(self, name: str) -> bool:
        """Tell whether a name, or ``name@distribution``, means this plugin."""
        plain, _, distribution = name.partition("@")
        return normalise(self.name) == normalise(plain) and (
            not distribution or normalise(self.distribution) == normalise(distribution)
        )


_cache: dict[tuple[tuple[str, int], ...], tuple[Installed, ...]] = {}


def installed() -> tuple[Installed, ...]:
    """Return the plugins installed in the folders of ``sys.path``, by name.

    A distribution found twice counts where it is found first, as for importlib.metadata. The current folder is not
    looked at.
    """
    folders = [folder for folder in dict.fromkeys(sys.path) if folder]
    stamp = tuple((folder, _changed(folder)) for folder in folders)
    found = _cache.get(stamp)
    if found is None:
        _cache.clear()
        found = _cache[stamp] = tuple(sorted(_scan(folders)))
    return found


def find(name: str, asked_by: str) -> Installed:
    """Return the installed plugin of a name, or of ``name@distribution``.

    Raises:
        UnknownPlugin: there is none.
        AmbiguousPlugin: there are several.
    """
    plugins = installed()
    found = [plugin for plugin in plugins if plugin.answers_to(name)]
    exact = [plugin for plugin in found if plugin.name == name.partition("@")[0]]
    if len(exact) == 1 and len({plugin.distribution for plugin in found}) == 1:
        return exact[0]  # one distribution with two spellings: not two that claim one name
    if len(found) == 1:
        return found[0]
    from hookpatch.errors import AmbiguousPlugin, UnknownPlugin  # at interpreter start mostly not needed

    if not found:
        known = sorted({plugin.name for plugin in plugins})
        raise UnknownPlugin(name, asked_by, known)
    raise AmbiguousPlugin(name, asked_by, [plugin.distribution for plugin in found])


def check_config() -> None:
    """Refuse options of the configuration that are for no plugin which is installed: they would do nothing in silence.

    Raises:
        UnknownPlugin: there are such.
        SettingError: the configuration cannot be used.
    """
    if (config := _selection.config()) is None:
        return
    for name in config.options:
        if not any(plugin.answers_to(name) for plugin in installed()):
            find(name, config.where("options", name))  # which raises


def check_allowed(plugin: Installed, asked_by: str) -> None:
    """Refuse a plugin that is not named in each allow list there is: that of this environment, and the configuration's.

    That of the environment is ``<sys.prefix>/hookpatch.allow``: a name, or ``name@distribution``, a line; ``#`` begins
    a comment. Only who may write into the environment may write it.

    Raises:
        NotAllowed: one does not name it, or cannot be read.
        SettingError: the configuration cannot be used.
    """
    config = _selection.config()
    if config is not None and config.allow is not None and not any(map(plugin.answers_to, config.allow)):
        from hookpatch.errors import NotAllowed  # at interpreter start mostly not needed

        raise NotAllowed(plugin.name, plugin.origin, asked_by, f"{config.where('allow')} does not name it")
    path = os.path.join(sys.prefix, "hookpatch.allow")
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        names = (line.partition("#")[0].strip() for line in lines)
        if any(plugin.answers_to(name) for name in names if name):
            return
        problem = f"{path} does not name it"
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        problem = f"{path}: it cannot be read ({error})"
    from hookpatch.errors import NotAllowed  # likewise

    raise NotAllowed(plugin.name, plugin.origin, asked_by, problem)


def _changed(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _scan(folders: list[str]) -> Iterator[Installed]:
    seen: set[str] = set()
    for folder in folders:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # a zip file, or a folder that is not there
        for entry in entries:
            stem, kind = os.path.splitext(entry.name)
            if kind not in (".dist-info", ".egg-info"):
                continue
            distribution, _, version = stem.partition("-")
            distribution = normalise(distribution)
            if distribution not in seen:
                seen.add(distribution)
                groups = _entry_points(entry.path)
                waits_for = groups.get(WAITS_FOR, {})
                for name, module in groups.get(GROUP, {}).items():
                    release = version.partition("-")[0] or "unknown"
                    yield Installed(name, module, distribution, release, waits_for.get(name, ""))


def _entry_points(folder: str) -> dict[str, dict[str, str]]:
    """Return what each group of a distribution's entry points leads to, by name."""
    groups: dict[str, dict[str, str]] = {}
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return groups
    group: dict[str, str] = {}
    for line in map(str.strip, text.splitlines() if GROUP in text else ()):
        if line.startswith("["):
            group = groups.setdefault(line.strip("[] "), {})
        elif "=" in line and not line.startswith(("#", ";")):
            name, _, module = line.partition("=")
            group[name.strip()] = module.partition("[")[0].strip()
    return groups
