"""What a session does where a target is no longer what was locked."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from hookpatch._difference import difference
from hookpatch._fingerprint import Fingerprint, of_slot
from hookpatch._lock import Lock, key_of, read_lock
from hookpatch._patch import Patch
from hookpatch._slot import Slot
from hookpatch.errors import DriftError

if TYPE_CHECKING:
    from hookpatch._selection import OnDrift


@final
class Drift:
    """A lock file and a policy: what a session is told to do about targets that have changed. Lives as its session.

    Attributes:
        lock: what the targets were like.
        policy: *warn*: apply the patch, with a warning; *skip* it; *error*: refuse it.
    """

    __slots__ = ("lock", "policy")

    def __init__(self, lock: Lock, policy: OnDrift) -> None:
        self.lock: Final = lock
        self.policy: Final = policy

    def look(self, patch: Patch, slot: Slot, owner: object) -> str | None:
        """Return how a target differs from what was locked, None if it does not, or is not locked.

        Raises:
            DriftError: it differs, and the policy is *error*.
        """
        if (problem := self._problem(patch, slot)) is not None and self.policy == "error":
            raise DriftError(patch.address, owner, problem)
        return problem

    def _problem(self, patch: Patch, slot: Slot) -> str | None:
        locked = self.lock.targets.get(key_of(patch) or "")
        if locked is None:
            return None
        found = difference(locked.fingerprint, of_slot(slot))
        if found.change == "same":
            return None
        was = locked.fingerprint.release if locked.fingerprint.distribution else "it"
        since = f"since {was} was locked in {self.lock.path}"
        there = _installed(locked.fingerprint)
        now_what = "'hookpatch check' shows the difference; where the patch still fits, lock it anew"
        return f"{patch.address} has changed {since}{there}: {'; '.join(found.reasons)}; {now_what}"


def _installed(locked: Fingerprint) -> str:
    """Return, in words, the version that is installed where it is another than the one that was locked."""
    from importlib import metadata  # 40 ms, for a target that has changed

    try:
        version = metadata.version(locked.distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    return "" if version == locked.version else f", and {locked.distribution} {version} is installed"


def drift_from(path: str, policy: OnDrift) -> Drift:
    """Return what a session needs.

    Raises:
        SettingError: the file is not there, or no lock file.
    """
    try:
        stamp = os.stat(path).st_mtime_ns
    except OSError:
        stamp = 0
    return Drift(_read(path, stamp), policy)


@lru_cache(maxsize=4)
def _read(path: str, stamp: int) -> Lock:
    """Return what a lock file holds: read once while it stays as it is, for each session asks."""
    return read_lock(path)
