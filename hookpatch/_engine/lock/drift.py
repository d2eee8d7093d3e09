"""Decide in a session about a target that differs from its locked state."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.lock.compare import difference
from hookpatch._engine.lock.fingerprint import Fingerprint, of_slot
from hookpatch._engine.lock.lockfile import Lock, key_of, read_lock
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.slots.slot import Slot
from hookpatch.errors import DriftError

if TYPE_CHECKING:
    from hookpatch._bootstrap.selection import OnDrift


@final
class Drift:
    """A lock file and a policy for patches of changed targets: warn, skip or error. Lives as long as its session."""

    __slots__ = ("lock", "policy")

    def __init__(self, lock: Lock, policy: OnDrift) -> None:
        self.lock: Final = lock
        self.policy: Final = policy

    def compare(self, patch: Patch, slot: Slot, owner: object) -> str | None:
        """Return the change of a target in words, or None; raise DriftError if the policy is *error*."""
        entry = self.lock.targets.get(key_of(patch) or "")
        if entry is None:
            return None
        locked = entry.fingerprint
        change = difference(locked, of_slot(slot))
        if change.change == "same":
            return None
        since = f"since {locked.release if locked.distribution else 'it'} was locked in {self.lock.path}"
        way = "'hookpatch check' shows the difference; where the patch still fits, lock it anew"
        reasons = "; ".join(change.reasons)
        problem = f"{patch.address} has changed {since}{_other_version(locked)}: {reasons}; {way}"
        if self.policy == "error":
            raise DriftError(patch.address, owner, problem)
        return problem


def _other_version(locked: Fingerprint) -> str:
    """Return the installed version in words, empty if the locked version is installed."""
    from importlib import metadata  # 40 ms, only for a changed target

    try:
        version = metadata.version(locked.distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    return "" if version == locked.version else f", and {locked.distribution} {version} is installed"


def drift_from(path: str, policy: OnDrift) -> Drift:
    """Return the drift check of a session; raise SettingError for a missing or malformed lock file."""
    stamp = 0
    with ErrorsOfCode(OSError):
        stamp = os.stat(path).st_mtime_ns
    return Drift(_read(path, stamp), policy)


@lru_cache(maxsize=4)
def _read(path: str, stamp: int) -> Lock:
    """Return a lock file's content, read once for all sessions until the file changes."""
    return read_lock(path)
