"""From the names of plugins to the patches that they ask for; and what the environment asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hookpatch import _changes, _imports, _selection
from hookpatch._ledger import Asked
from hookpatch._selection import Selection, normalise
from hookpatch._session import Session

if TYPE_CHECKING:
    from hookpatch._drift import Drift  # it needs tomllib and more, and few sessions have a lock file
    from hookpatch._host import Host  # it needs pluggy, which patches without a plugin do not
    from hookpatch._selection import OnDrift


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


def load_drift(given: tuple[str, OnDrift] | None) -> Drift | None:
    """Return what a session needs for a lock file; None without one.

    Raises:
        SettingError: it cannot be read.
    """
    if given is None:
        return None
    with _imports.for_ourselves():
        from hookpatch._drift import drift_from  # likewise

    return drift_from(*given)


def session_of_environment() -> Session:
    """Return a session of what the environment asks for, not opened yet.

    Raises:
        HookpatchError: something of it cannot be had.
    """
    host, by_name = load(_selection.from_environment())
    asked = [one for of_plugin in by_name.values() for one in of_plugin]
    also = [] if host is None else [partial(_changes.listen, host=host)]
    return Session(
        asked, _selection.on_error(), count=_selection.counts(), also=also, drift=load_drift(_selection.lock())
    )
