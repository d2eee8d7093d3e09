"""Load the patches of the selected plugins, and make the session of the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hookpatch._bootstrap import environment, imports
from hookpatch._bootstrap import selection as _selection
from hookpatch._bootstrap.installed import check_config
from hookpatch._bootstrap.selection import Selection, normalise
from hookpatch._engine.patch.describe import a_kind
from hookpatch._plugins import notify
from hookpatch._plugins.relations import check
from hookpatch._session.ledger import Requested
from hookpatch._session.session import Session, open_sessions
from hookpatch._session.span.part import SessionPart
from hookpatch.errors import SettingError

if TYPE_CHECKING:
    from hookpatch._bootstrap.installed import Installed
    from hookpatch._bootstrap.selection import OnDrift
    from hookpatch._engine.lock.drift import Drift  # slow to import, and few sessions have a lock file
    from hookpatch._plugins.host import Host  # imports pluggy, which patches without a plugin do not need
    from hookpatch._plugins.relations import Relations


def load(selection: Selection, host: Host | None = None) -> tuple[Host | None, dict[str, list[Requested]]]:
    """Return the host of the selected plugins, and their patches by normalised plugin name.

    The host may have loaded other plugins of the same session before.

    Raises:
        SelectionError: no plugin or option has a selected name.
        PluginError: a plugin cannot be loaded.
    """
    if not selection.names and not selection.options:
        return host, {}
    from hookpatch._plugins.host import Host  # imports pluggy

    host = host or Host()
    return host, {
        normalise(name): [
            Requested(patch, plugin.name, plugin.installed.origin, home=plugin.installed.module) for patch in patches
        ]
        for name, plugin, patches in host.load(selection)
    }


def switched_on(host: Host, asked_by: str) -> SessionPart:
    """Return the part of a session that switches plugins on and off. ``asked_by`` is for messages.

    ``begin`` raises MissingPlugin or ConflictingPlugins if the plugins need another plugin, or conflict with a plugin
    that is on here.
    """

    def begin(number: int) -> None:
        check(host.relations, asked_by, relations_of_plugins())
        notify.listen(number, host)

    return SessionPart(begin, notify.listen_no_longer)


def relations_of_plugins() -> dict[Installed, Relations]:
    """Return the plugins that are on here, each with its relations to other plugins."""
    sessions = open_sessions()
    hosts = (host for number, host in notify.listening() if number in sessions and sessions[number].is_in_effect)
    return {installed: relations for host in hosts for installed, relations in host.relations.items()}


def load_drift(lock_and_policy: tuple[str, OnDrift] | None) -> Drift | None:
    """Return the drift check of a session with a lock file; None without a lock file.

    Raises:
        SettingError: the lock file cannot be read.
    """
    if lock_and_policy is None:
        return None
    with imports.for_ourselves():
        from hookpatch._engine.lock.drift import drift_from  # slow to import

    return drift_from(*lock_and_policy)


def session_of_environment() -> Session:
    """Return a session of the environment's selection, not opened yet.

    Raises:
        HookpatchError: the selection is wrong, or a plugin cannot be loaded.
    """
    selection = _selection.from_environment()
    check_config()
    host, by_name = load(selection)
    requests = [request for of_plugin in by_name.values() for request in of_plugin]
    also = [] if host is None else [switched_on(host, selection.asked_by)]
    drift = load_drift(_selection.lock())
    return Session(requests, _selection.on_error(), count=environment.counts(), also=also, drift=drift)


def selection_for(names: Sequence[str], options: Any, asked_by: str) -> Selection:
    """Return the selection given by arguments, with the options of the environment and the configuration.

    Raises:
        SettingError: the options are no mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise SettingError(asked_by, f"options= takes a mapping by plugin name, not {a_kind(options)}")
    return _selection.selection_of(names, options or {}, asked_by)
