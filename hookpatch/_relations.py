"""How a plugin stands to others: what it needs, what it cannot be with, and on which side of them its patches lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from hookpatch._discovery import Installed, installed
from hookpatch._environment import PLUGINS
from hookpatch._patch import plugin_names
from hookpatch.errors import ConflictingPlugins, MissingPlugin


@final
class Relations:
    """What a plugin declares of others, once for all of its patches: a value in its module. Frozen by convention.

    ``RELATIONS = hookpatch.Relations(needs="fuse", after="fuse")``. Whatever the value is called, it is found.

    Each takes the name of a plugin, ``name@distribution`` where two share one, or several of these.

    Args:
        needs: plugins without which this one makes no sense: without them it is refused, and none is switched on.
        conflicts: plugins that cannot be on together with this one.
        before: plugins whose patches on the same site lie inside this one's.
        after: plugins whose patches on the same site lie outside this one's.

    Raises:
        PatchError: one of them is no text, or has a comma in it.
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
        given = (f"{side}={names!r}" for side in self.__slots__ if (names := getattr(self, side)))
        return f"Relations({', '.join(given)})"


def check(new: Mapping[Installed, Relations], asked_by: str, on: Mapping[Installed, Relations] = {}) -> None:
    """Refuse plugins that lack one they need, or that cannot be on together.

    Args:
        new: those that are to be switched on.
        asked_by: where they were asked for.
        on: those that are on.

    Raises:
        MissingPlugin: one that is needed is neither on nor to be.
        ConflictingPlugins: two of them, one of which is new, cannot be on together.
    """
    both = {**on, **new}
    for plugin, relations in new.items():
        for name in relations.needs:
            if not any(other.answers_to(name) for other in both):
                raise MissingPlugin(plugin.name, plugin.origin, name, asked_by, _way(name, asked_by))
    for plugin, relations in both.items():
        for name in relations.conflicts:
            for other in both:
                if other != plugin and other.answers_to(name) and (plugin in new or other in new):
                    is_on = [one.name for one in (plugin, other) if one not in new]
                    way = (
                        f"'{is_on[0]}' is on; switch it off, or leave the other out" if is_on else "select one of them"
                    )
                    raise ConflictingPlugins(
                        plugin.name, plugin.origin, name, (other.name, other.origin), asked_by, way
                    )


def _way(name: str, asked_by: str) -> str:
    """Return what to do where a plugin is needed that is not on."""
    if not any(plugin.answers_to(name) for plugin in installed()):
        distribution = name.partition("@")[2]
        install = f"pip install {distribution}" if distribution else "install the distribution that offers it"
        return f"which is not installed; {install}, and ask for it"
    if asked_by.startswith(f"{PLUGINS}="):
        what = f"write {asked_by},{name}"
    else:
        what = f"add -p {name}" if asked_by == "-p" else f"name '{name}', too"
    return f"which was not asked for; {what}"
