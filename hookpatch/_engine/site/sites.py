"""All sites: find the site of a slot, list the patched sites, and pass sites on to a forked process."""

from __future__ import annotations

import os
from sys import _getframe
from time import monotonic
from types import FrameType, FunctionType
from typing import Any, Final
from weakref import WeakValueDictionary

from hookpatch._bootstrap.interrupts import write_notes
from hookpatch._engine.site.late_restore import LateRestore, late_restores, on_foreign_death
from hookpatch._engine.site.site import Site, covered
from hookpatch._engine.site.turn_lock import after_fork, before_fork, lock
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import Slot

_sites: Final[WeakValueDictionary[tuple[Any, ...], Site]] = WeakValueDictionary()  # by slot; changed under the lock
_locked: Final[dict[Site, FrameType]] = {}  # the sites whose locks the forking frame has taken
_PATIENCE: Final = 1.0  # seconds


def site_at(slot: Slot) -> Site:
    """Return the site of a slot: the known site, or a new one."""
    with lock:
        site = _sites.get(slot.key)
        if site is None or site.slot.owner is None:  # or of a dead instance with a reused id
            site = _sites[slot.key] = Site(slot)
        return site


def site_of(slot: Slot) -> Site:
    """Return the site of a slot; without a lock, and therefore a new site may not be known: see ``claims``."""
    write_notes()
    site = _sites.get(slot.key)
    return Site(slot) if site is None or site.slot.owner is None else site


def claims(site: Site) -> bool:
    """Make a site known, unless another site of the slot is; return False in that case. On the fast path."""
    known = _sites.get(site.slot.key)
    if known is None or known.slot.owner is None:
        known = _sites[site.slot.key] = site
    return known is site


def site_in(function: FunctionType) -> Site:
    """Return the site of a function's own code, for patches in place."""
    return site_at(FunctionSlot(function, binds=False))


def over(original: Any) -> list[Site]:
    """Return the sites with an object as the original."""
    return [site for site in all_sites() if site.original is original and _is_patched(site)]


def restore_late() -> None:
    """Restore every slot without a covering foreign value."""
    late = late_restores()
    if not (covered or late):
        return
    waiting: dict[Site, list[LateRestore]] = {site: [] for site in list(covered)}
    for late_restore in late:
        if (slot := late_restore.slot) is None:
            late_restore.forget()  # the owner is gone
        else:
            waiting.setdefault(site_at(slot), []).append(late_restore)
    for site, late in waiting.items():
        site.look_again(late)  # without waiting: the thread with the lock may wait for this thread


def _look_again(late_restore: LateRestore) -> None:
    # Called by the collector, anywhere: never wait, since this thread may hold any lock already.
    slot = late_restore.slot
    if slot is not None and lock.acquire_for(_getframe(), until=0):
        try:
            site = site_at(slot)
        finally:
            lock.release_for(_getframe())
        site.look_again([late_restore])


def patched() -> list[Site]:
    """Return the sites with layers, without dead instances, although other code may hold these sites."""
    return list(filter(_is_patched, all_sites()))


def _is_patched(site: Site) -> bool:
    return bool(site.layers) and site.slot.owner is not None


def all_sites() -> list[Site]:
    """Return all sites, with layers or without."""
    with lock:
        return list(_sites.values())


def _before_fork() -> None:
    # The child process gets the present slots, and only this thread: no other thread may be changing a site. Do not
    # wait long: a thread that runs the code of an owner may wait for this thread.
    frame = _getframe().f_back or _getframe()  # the forking frame
    before_fork(frame)
    end = monotonic() + _PATIENCE
    _locked.update((site, frame) for site in list(_sites.values()) if site.lock.acquire_for(frame, until=end))


def _after_fork() -> None:
    while _locked:
        site, frame = _locked.popitem()
        site.lock.release_for(frame)
    after_fork(_getframe().f_back or _getframe())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

on_foreign_death.append(_look_again)
