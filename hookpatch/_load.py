"""From the names of plugins to the patches that they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookpatch._ledger import Asked
from hookpatch._selection import Selection, normalise

if TYPE_CHECKING:
    from hookpatch._host import Host  # it needs pluggy, which patches without a plugin do not


def load(selection: Selection) -> tuple[Host | None, dict[str, list[Asked]]]:
    """Return the host of the selected plugins, and their patches by the names asked for, normalised.

    Raises:
        SelectionError: a name or an option is none.
        PluginError: a plugin cannot be loaded.
    """
    if not selection.names and not selection.options:
        return None, {}
    from hookpatch._host import Host  # likewise

    host = Host()
    return host, {
        normalise(name): [Asked(patch, plugin.name, plugin.installed.origin) for patch in patches]
        for name, plugin, patches in host.load(selection)
    }
