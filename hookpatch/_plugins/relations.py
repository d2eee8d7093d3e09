"""The relations of a plugin to other plugins: needs, conflicts, and the order of patches on one site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from hookpatch._bootstrap.environment import PLUGINS
from hookpatch._bootstrap.installed import Installed, installed
from hookpatch._bootstrap.selection import PluginName
from hookpatch._engine.patch.patch import plugin_names
from hookpatch.errors import ConflictingPlugins, MissingPlugin


@final
class Relations:
    """The relations of a plugin to other plugins, for all patches of the plugin: a value in the plugin's module.

    Frozen by convention.

    ``RELATIONS = hookpatch.Relations(needs="fuse", after="fuse")``. Any name in the module will do.

    Each argument takes a plugin's name or several names; ``name@distribution`` if two plugins share a name.

    Args:
        needs: plugins without which this plugin is refused; needed plugins are not switched on automatically.
        conflicts: plugins that cannot be on together with this plugin.
        before: plugins whose patches on the same site are inside the patches of this plugin.
        after: plugins whose patches on the same site are outside the patches of this plugin.

    Raises:
        PatchError: a name is no text, or has a comma.
    """

    __slots__ = ("after", "before", "conflicts", "needs")

    def __init__(
        self,
        *,
        needs: str | Iterable[str] = (),
        conflicts: str | Iterable[str] = (),
        before: str | Iterable[str] = (),
        after: str | Iterable[str] = (),
    ) -> None:
        self.needs: Final = plugin_names("Relations", "needs", needs)
        self.conflicts: Final = plugin_names("Relations", "conflicts", conflicts)
        self.before: Final = plugin_names("Relations", "before", before)
        self.after: Final = plugin_names("Relations", "after", after)

    def __repr__(self) -> str:
        sides = (f"{side}={names!r}" for side in self.__slots__ if (names := getattr(self, side)))
        return f"Relations({', '.join(sides)})"


def check(new: Mapping[Installed, Relations], asked_by: str, on: Mapping[Installed, Relations] = {}) -> None:
    """Raise MissingPlugin or ConflictingPlugins if new plugins cannot be on together, and with the plugins ``on``."""
    plugins = {**on, **new}
    for plugin, relations in new.items():
        for name in relations.needs:
            if not any(candidate.answers_to(name) for candidate in plugins):
                raise MissingPlugin(plugin.name, plugin.origin, name, asked_by, _way(name, asked_by))
    for plugin, relations in plugins.items():
        for name in relations.conflicts:
            for other in plugins:
                if other != plugin and other.answers_to(name) and (plugin in new or other in new):
                    old = next((side.name for side in (plugin, other) if side not in new), None)
                    way = f"'{old}' is on; switch it off, or leave the other out" if old else "select one of them"
                    of_other = (other.name, other.origin)
                    raise ConflictingPlugins(plugin.name, plugin.origin, name, of_other, asked_by, way)


def _way(name: str, asked_by: str) -> str:
    """Return the remedy for a missing plugin, for messages."""
    if not any(plugin.answers_to(name) for plugin in installed()):
        distribution = PluginName(name).distribution
        install = f"pip install {distribution}" if distribution else "install its distribution"
        return f"which is not installed; {install}, and select the plugin"
    if asked_by.startswith(f"{PLUGINS}="):
        return f"which was not asked for; write {asked_by},{name}"
    remedy = f"add -p {name}" if asked_by == "-p" else f"name '{name}', too"
    return f"which was not asked for; {remedy}"
