"""What the guards say of a patch, without applying it."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, final

from hookpatch import _everywhere, _guard
from hookpatch._beneath import beneath, own_beneath
from hookpatch._calls import takes
from hookpatch._ledger import Asked
from hookpatch._patch import CALL_VERBS
from hookpatch._requirement import check_requirement, unneeded
from hookpatch._resolve import missing, resolve
from hookpatch._slot import ABSENT, Slot, inner
from hookpatch._standing import binds
from hookpatch.errors import ApplyError, TargetNotFound


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guards say of one patch. Frozen.

    Attributes:
        problem: why it cannot be applied; None when nothing speaks against it.
        is_gone: True when that is because its target is not there.
        unneeded: why it is not needed any more; None when it is.
        unknown: what could not be looked at, in words; None when all could.
    """

    problem: str | None = None
    is_gone: bool = False
    unneeded: str | None = None
    unknown: str | None = None

    @property
    def fits(self) -> bool:
        """True when nothing speaks against the patch."""
        return self.problem is None


def by_version(asked: Asked) -> Verdict:
    """Return what the installed versions say. Imports no target."""
    problem = why = None
    try:
        why = unneeded(asked.patch, asked.owner)  # also where it does not fit: it may be for that very reason
        check_requirement(asked.patch, asked.owner)
    except ApplyError as error:
        problem = error.problem
    return Verdict(problem, unneeded=why)


def by_target(asked: Asked, module: ModuleType | None) -> tuple[Verdict, Slot | None]:
    """Return what versions and target say, and the slot if it is there. Changes nothing, and runs no factory.

    Args:
        asked: the patch, and who asks for it.
        module: its target's module, imported; None for an object at hand.
    """
    patch, owner, slot = asked.patch, asked.owner, None
    known = by_version(asked)
    if patch.target is None:
        return known, None
    try:
        slot = resolve(patch.target, module, owner)
        held = beneath(slot)
        if held is ABSENT and patch.verb != "replace":
            raise missing(slot, patch.target, owner)
        if not known.fits:
            return known, slot
        own = own_beneath(slot)
        _guard.check_slot(patch, slot, own, owner)
        _everywhere.check(patch, slot, own, owner)
        unknown = _look_at_signature(asked, slot, held)
    except TargetNotFound as error:
        return Verdict(error.problem, is_gone=True, unneeded=known.unneeded), None
    except ApplyError as error:
        return Verdict(error.problem, unneeded=known.unneeded), slot
    return Verdict(unneeded=known.unneeded, unknown=unknown), slot


_NO_SIGNATURE: Final = "it tells no signature: whether it takes what the patch relies on is not known"


def _look_at_signature(asked: Asked, slot: Slot, held: Any) -> str | None:
    """Refuse what a layer would refuse; return what cannot be known before it is applied."""
    patch = asked.patch
    if patch.verb == "derive" and callable(inner(held)) and not isinstance(held, type):
        return "what is derived is not known before: its signature is looked at when it is applied"
    if patch.verb not in CALL_VERBS or (patch.verb == "wrap" and not patch.expects):
        return None
    parameters = takes(inner(held), binds(slot, held))
    if parameters is None:
        return _NO_SIGNATURE
    _guard.check_call(patch, parameters, asked.owner)
    return None
