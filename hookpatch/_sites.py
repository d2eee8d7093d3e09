"""All sites: the one of a slot, those that have layers, and what a fork does to them."""

from __future__ import annotations

import os
from time import monotonic
from typing import Any, Final
from weakref import WeakValueDictionary

from hookpatch._leftover import Leftover, leftovers, on_stir
from hookpatch._site import Site, covered
from hookpatch._slot import Slot
from hookpatch._turn import Turn, after_fork, before_fork, lock

_sites: Final[WeakValueDictionary[tuple[Any, ...], Site]] = WeakValueDictionary()  # by slot; changed under the lock
_quiet: Final[set[Site]] = set()  # whose turn the forking thread has
_PATIENCE: Final = 1.0  # seconds


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the one that is known, or a new one."""
    with lock:
        site = _sites.get(slot.key)
        if site is None:
            site = _sites[slot.key] = Site(slot)
        return site


def over(original: Any) -> list[Site]:
    """Return the sites whose slots held an object before any layer."""
    return [site for site in patched() if site.original is original]


def settle() -> None:
    """Give back every slot that somebody else's value was in the way of, and is no longer."""
    left_behind = leftovers()
    if not (covered or left_behind):
        return
    waiting: dict[Site, list[Leftover]] = {site: [] for site in list(covered)}
    for leftover in left_behind:
        if (slot := leftover.slot) is None:
            leftover.forget()  # its owner is gone
        else:
            waiting.setdefault(site_at(slot), []).append(leftover)
    for site, left in waiting.items():
        site.stir(left)  # not if another thread has its turn: that one may be waiting for this one


def _look_again(leftover: Leftover) -> None:
    # Called by the collector, anywhere: a lock that this thread holds already is no reason to wait.
    slot = leftover.slot
    if slot is not None and lock.acquire(blocking=False):
        try:
            site = site_at(slot)
        finally:
            lock.release()
        site.stir([leftover])


def patched() -> list[Site]:
    """Return the sites that have layers."""
    return [site for site in known() if site.layers]


def known() -> list[Site]:
    """Return the sites that there are, with layers or without."""
    with lock:
        return list(_sites.values())


def _before_fork() -> None:
    # A child gets the slots as they are, and only this thread: let no other be in the midst of a change. One that runs
    # its owner's code may wait for this very thread, so do not wait long.
    before_fork()
    end = monotonic() + _PATIENCE
    _quiet.update(site for site in list(_sites.values()) if site.turn.acquire(timeout=max(0, end - monotonic())))


def _after_fork() -> None:
    while _quiet:
        _quiet.pop().turn.release()
    after_fork()


def _in_child() -> None:
    for site in list(_sites.values()):
        if site not in _quiet:
            site.turn = Turn()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)

on_stir.append(_look_again)
