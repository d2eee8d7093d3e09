"""From the names of plugins to the patches that they ask for; and what the environment asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hookpatch import _changes, _environment, _imports, _selection
from hookpatch._discovery import check_config
from hookpatch._ledger import Asked
from hookpatch._relations import check
from hookpatch._selection import Selection, normalise
from hookpatch._session import Session, open_sessions

if TYPE_CHECKING:
    from hookpatch._discovery import Installed
    from hookpatch._drift import Drift  # it needs tomllib and more, and few sessions have a lock file
    from hookpatch._host import Host  # it needs pluggy, which patches without a plugin do not
    from hookpatch._relations import Relations
    from hookpatch._selection import OnDrift


def load(selection: Selection, host: Host | None = None) -> tuple[Host | None, dict[str, list[Asked]]]:
    """Return the host of the selected plugins, and their patches by the names asked for, normalised.

    Args:
        selection: what was asked for.
        host: one that has loaded others of the same session.

    Raises:
        SelectionError: a name or an option is none.
        PluginError: a plugin cannot be loaded.
    """
    if not selection.names and not selection.options:
        return host, {}
    from hookpatch._host import Host  # likewise

    host = host or Host()
    return host, {
        normalise(name): [Asked(patch, plugin.name, plugin.installed.origin) for patch in patches]
        for name, plugin, patches in host.load(selection)
    }


def switch_on(number: int, host: Host, asked_by: str) -> Callable[[], object]:
    """Have the plugins of a session be on, beside those that are on here; return the undo.

    Args:
        number: the session's.
        host: has loaded its plugins.
        asked_by: where they were asked for.

    Raises:
        MissingPlugin, ConflictingPlugins: they cannot be on together, or not alone.
    """
    check(host.relations, asked_by, relations_here())
    return _changes.listen(number, host)


def relations_here() -> dict[Installed, Relations]:
    """Return the plugins that are on here, and how each stands to others."""
    sessions = open_sessions()
    on: dict[Installed, Relations] = {}
    for number, host in _changes.listening():
        if number in sessions and sessions[number].holds_here:
            on.update(host.relations)
    return on


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
    selection = _selection.from_environment()
    check_config()
    host, by_name = load(selection)
    asked = [one for of_plugin in by_name.values() for one in of_plugin]
    also = [] if host is None else [partial(switch_on, host=host, asked_by=selection.asked_by)]
    return Session(
        asked, _selection.on_error(), count=_environment.counts(), also=also, drift=load_drift(_selection.lock())
    )
