"""Notify plugins of sites with changed patches: the plugins drop caches made from earlier values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.site.sites import patched
from hookpatch._engine.site.stand_in import is_proxy

if TYPE_CHECKING:
    from hookpatch._plugins.host import Host  # it needs pluggy, which patches without a plugin do not


class Hearer(NamedTuple):
    """The functions that notify a plugin of a block entered again: on the fast path, and therefore without a lock.

    Attributes:
        begin: called when the sites are patched; returns False if the plugin must be notified with locks.
        may_end: returns False if the plugin must be notified with locks when the patches are restored.
        end: called when the patches are restored, and again after an interrupt; returns False as ``begin`` does.
        quick: called after ``begin``; returns the ``Quick`` of the next blocks, or None if these need notes.
    """

    begin: Callable[[Sequence[Site]], bool]
    may_end: Callable[[Sequence[Site]], bool]
    end: Callable[[Sequence[Site]], bool]
    quick: Callable[[Sequence[Site]], Any]


LIBRARY: Final = "torch"
hosts: Final[dict[int, Host]] = {}  # of the sessions with plugins, by number
own: Final[list[Callable[[Sequence[Site]], None]]] = []  # of hookpatch itself, called before the plugins
hearers: Final[list[Hearer]] = []  # of the built-in plugin, once a patch was changed with torch imported


def listen(number: int, host: Host) -> None:
    """Notify the plugins of a session of changes by any session."""
    hosts[number] = host


def listen_no_longer(number: int) -> None:
    """Undo ``listen``."""
    hosts.pop(number, None)


def listening() -> list[tuple[int, Host]]:
    """Return the numbers of the open sessions with plugins, and their hosts."""
    return list(hosts.copy().items())


def sites_changed(touched: Iterable[Site]) -> list[Exception]:
    """Notify all plugins of changed patches at these sites; return the errors of plugins that fail."""
    sites = list(set(touched))
    for update in own:
        update(sites)
    heard = list(hosts.values())
    if imports.begun(LIBRARY):  # a patch on a part of torch is applied before the import of torch ends
        heard.append(_builtin())
    return [error for host in heard for error in host.changed(sites)] if sites else []


def awaits_library(site: Site, layer: Layer) -> bool:
    """Return True if the built-in plugin must be notified of a layer once torch is imported.

    Only a proxy, or a wrapper that asks a gate first, concerns torch: our plain functions are traced unchanged.
    """
    return not imports.begun(LIBRARY) and (layer.is_gated or is_proxy(site.value))


def watch_of_library() -> imports.Watch:
    """Return a watch, not begun, that notifies the built-in plugin of all patched sites once torch is imported."""
    return imports.Watch(LIBRARY, _notify_of_all)


def _notify_of_all(library: ModuleType) -> None:
    for error in _builtin().changed(patched()):
        raise error


@cache
def _builtin() -> Host:
    """Return the host of the plugin for torch that comes with hookpatch."""
    from hookpatch._bootstrap.installed import Installed
    from hookpatch._plugins.host import Host

    host = Host()
    host.loaded(Installed("torch", "hookpatch._torch.plugin", "hookpatch", ""))
    return host
