"""Tells plugins at which sites the patches have changed, so that they drop what was made from what stood there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

from hookpatch import _imports
from hookpatch._site import Site, patched
from hookpatch._slot import FunctionSlot
from hookpatch._trampoline import Trampoline

if TYPE_CHECKING:
    from hookpatch._host import Host  # it needs pluggy, which patches without a plugin do not

_listening: Final[dict[int, Host]] = {}  # by the number of the session


def listen(number: int, host: Host) -> Callable[[], object]:
    """Have the plugins of a session hear of changes, from whichever session they come; return the undo."""
    _listening[number] = host
    return lambda: _listening.pop(number, None)


def tell(sites: Collection[Site]) -> list[Exception]:
    """Tell all who listen that the patches at these sites have changed; return the errors of those that fail."""
    if not sites:
        return []
    hosts = list(_listening.values())
    if _imports.begun("torch"):  # a patch on a part of torch is applied before torch is imported to its end
        hosts.append(_builtin())
    return [error for host in hosts for error in host.changed(list(sites))]


def await_libraries() -> Callable[[], None]:
    """Have the built-in plugin hear of all patched sites when its library is imported; return the undo."""
    if _imports.begun("torch"):
        return lambda: None
    return _imports.watch("torch", _tell_of_all).cancel


def _tell_of_all(library: ModuleType) -> None:
    sites = patched()
    Trampoline.mark_all()
    for site in sites:
        if isinstance(site.slot, FunctionSlot):
            site.slot.mark()
    for error in _builtin().changed(sites):
        raise error


@cache
def _builtin() -> Host:
    """Return the host of the plugins that come with hookpatch and serve libraries that are imported."""
    from hookpatch import __version__
    from hookpatch._discovery import Installed
    from hookpatch._host import Host

    host = Host()
    host.plugin(Installed("torch", "hookpatch._torch", "hookpatch", __version__))
    return host
