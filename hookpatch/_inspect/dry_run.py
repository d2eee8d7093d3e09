"""Run the guards of a patch without applying the patch."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from hookpatch._engine.calls.signatures import takes
from hookpatch._engine.patch.patch import CALL_VERBS
from hookpatch._engine.patch.versions import check_requirement, unneeded
from hookpatch._engine.site import reach
from hookpatch._engine.site.stand_in import binds
from hookpatch._engine.slots import guard
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.resolve import missing, resolve
from hookpatch._engine.slots.slot import ABSENT, Slot, inner
from hookpatch._session.ledger import Requested
from hookpatch.errors import ApplyError, TargetNotFound

# The exit status of a command by the worst result of a check or a plan.
SEVERITY: Final[Mapping[str, int]] = {
    **dict.fromkeys(("fits", "same"), 0),
    **dict.fromkeys(("absent", "compatible", "skipped", "unlocked"), 1),
    **dict.fromkeys(("broken", "changed", "conflict", "gone", "unfit"), 2),
}


class Verdict(NamedTuple):
    """The guards' answer for one patch."""

    problem: str | None = None  # the reason why the patch cannot be applied
    is_gone: bool = False  # True if the target does not exist
    unneeded: str | None = None  # the reason why the patch is no longer needed
    unknown: str | None = None  # the check that was not possible

    @property
    def fits(self) -> bool:
        """Return True if no guard refuses the patch."""
        return self.problem is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the texts of ``unneeded`` and ``unknown``."""
        return tuple(text for text in (self.unneeded, self.unknown) if text)


def by_version(requested: Requested) -> Verdict:
    """Check a patch against the installed versions. Imports no target."""
    problem = reason = None
    try:
        reason = unneeded(requested.patch, requested.owner)  # first: may be the cause of an unmet requirement
        check_requirement(requested.patch, requested.owner)
    except ApplyError as error:
        problem = error.problem
    return Verdict(problem, unneeded=reason)


def by_target(requested: Requested, module: ModuleType | None) -> tuple[Verdict, Slot | None]:
    """Check a patch against versions and target; return also the slot if it exists. Runs no factory."""
    patch, owner, slot = requested.patch, requested.owner, None
    verdict = by_version(requested)
    if patch.target is None:
        return verdict, None
    try:
        slot = resolve(patch.target, module, owner)
        value = beneath(slot)
        if value is ABSENT and patch.verb != "replace":
            raise missing(slot, patch.target, owner)
        if not verdict.fits:
            return verdict, slot
        own = own_beneath(slot)
        guard.check_slot(patch, slot, own, owner)
        if patch.reach == "everywhere":
            reach.check(patch, slot, own, owner)
        unknown = _check_signature(requested, slot, value)
    except TargetNotFound as error:
        return Verdict(error.problem, is_gone=True, unneeded=verdict.unneeded), None
    except ApplyError as error:
        return Verdict(error.problem, unneeded=verdict.unneeded), slot
    return Verdict(unneeded=verdict.unneeded, unknown=unknown), slot


def _check_signature(requested: Requested, slot: Slot, value: Any) -> str | None:
    """Refuse a signature that a layer would refuse; return the reason if the signature is unknown."""
    patch = requested.patch
    if patch.verb == "derive" and callable(inner(value)) and not isinstance(value, type):
        return "what is derived is not known before: its signature is looked at when it is applied"
    if patch.verb not in CALL_VERBS or (patch.verb == "wrap" and not patch.expects):
        return None
    parameters = takes(inner(value), binds(slot, value))
    if parameters is None:
        return "it tells no signature: whether it takes what the patch relies on is not known"
    guard.check_call(patch, parameters, requested.owner)
    return None
