"""Tells plugins at which sites the patches have changed, so that they drop what was made from what stood there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

from hookpatch import _imports
from hookpatch._layer import Layer
from hookpatch._site import Site
from hookpatch._sites import patched
from hookpatch._standing import is_proxy

if TYPE_CHECKING:
    from hookpatch._host import Host  # it needs pluggy, which patches without a plugin do not

_listening: Final[dict[int, Host]] = {}  # by the number of the session


def listen(number: int, host: Host) -> Callable[[], object]:
    """Have the plugins of a session hear of changes, from whichever session they come; return the undo."""
    _listening[number] = host
    return lambda: _listening.pop(number, None)


def listening() -> list[tuple[int, Host]]:
    """Return the hosts of the sessions that are open, with the sessions' numbers."""
    return list(_listening.items())


def tell(touched: Iterable[Site]) -> list[Exception]:
    """Tell all who listen that the patches at these sites have changed; return the errors of those that fail."""
    hosts = list(_listening.values())
    if _imports.begun("torch"):  # a patch on a part of torch is applied before torch is imported to its end
        hosts.append(_builtin())
    sites = list(set(touched)) if hosts else []
    return [error for host in hosts for error in host.changed(sites)] if sites else []


def await_library(site: Site, layer: Layer) -> _imports.Watch | None:
    """Have the built-in plugin hear of all patched sites when its library comes, if it is to know of this layer.

    A function of ours is what it seems to be. What is known as ours alone is a proxy, and a wrapper that asks first.
    """
    if _imports.begun("torch") or not (layer.is_gated or is_proxy(site.stands)):
        return None
    return _imports.watch("torch", _tell_of_all)


def _tell_of_all(library: ModuleType) -> None:
    for error in _builtin().changed(patched()):
        raise error


@cache
def _builtin() -> Host:
    """Return the host of the plugins that come with hookpatch and serve libraries that are imported."""
    from hookpatch import __version__
    from hookpatch._discovery import Installed
    from hookpatch._host import Host

    host = Host()
    host.loaded(Installed("torch", "hookpatch._torch", "hookpatch", __version__))
    return host
