"""Check a patch without applying: against the installed versions, or at a target imported by this process."""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.signatures import as_code_takes, takes
from hookpatch._engine.calls.trampoline import copy_with_code, is_changed_in_place
from hookpatch._engine.lock.drift import Drift
from hookpatch._engine.patch.patch import GIVING_VERBS, NOT_NEEDED
from hookpatch._engine.patch.versions import check_requirement, unneeded
from hookpatch._engine.site.reach import doubts_around
from hookpatch._engine.site.stand_in import binds
from hookpatch._engine.slots.function import FunctionSlot, innermost
from hookpatch._engine.slots.guard import check_call, check_kept, doubts, getter_of, has_value, unchecked
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.resolve import seen_from
from hookpatch._engine.slots.slot import Slot, inner
from hookpatch._inspect.rehearsal import MatchOutcome, Outcome, State
from hookpatch._session.ledger import Ledger, Requested
from hookpatch._session.lifecycle.kinds import lifecycle_of
from hookpatch.errors import ApplyError


def by_version(requested: Requested) -> Outcome:
    """Check a patch against the installed versions: *waiting* without an objection. Imports no target."""
    warnings: tuple[str, ...] = ()
    try:
        reason = unneeded(requested.patch, requested.owner)  # first: a reached until= may be why requires= is unmet
        warnings = (*unchecked(requested.patch), *filter(None, [reason]))
        check_requirement(requested.patch, requested.owner)
        if requested.plugin is None:  # of a block, not of a plugin
            check_kept(requested.patch, requested.owner)
    except ApplyError as error:
        return _refused(requested, error, warnings)
    return Outcome("waiting", warnings=warnings)


def by_target(requested: Requested, drift: Drift | None) -> Outcome:
    """Check a patch of an imported module or an object at hand, as a session does before it applies the first patch."""
    outcome = by_version(requested)
    if requested.patch.is_rule:
        return outcome if outcome.state != "waiting" else _by_matches(requested, drift)
    if requested.patch.source is not None:  # read in the child process: the source may need an import
        return outcome
    patch, owner, warnings = requested.patch, requested.owner, outcome.warnings
    module = None if patch.module is None else imports.loaded(patch.module)
    function = reason = None
    if outcome.state != "waiting" or (module is None and patch.module is not None):  # the import is running
        return outcome
    try:
        target = patch.target if patch.verb == "edit" else None
        if target is not None and issubclass(type(beneath(seen_from(target, module, owner))), type):
            return outcome  # the edit may run statements of the class body, which no process of the user runs
        # A session skips the check of an optional patch, and finds out when it applies the patch.
        as_required = requested._replace(patch=replace(patch, required=True))
        referents = lifecycle_of(as_required, (0, 0), Ledger(), "warn", drift=drift).check()
        if patch.target is not None:
            slot = seen_from(patch.target, module, owner)
            value = inner(beneath(slot))
            if patch.target.of_instances is None:
                is_in_place = patch.reach == "everywhere" and not referents and type(value) is FunctionType
                function = value if is_in_place else None
                _check_signature(requested, slot)
                reason = NOT_NEEDED if patch.is_for_absent and has_value(slot, own_beneath(slot)) else None
            warnings = (*warnings, *doubts(patch, slot, value))
            if patch.verb == "edit":
                _check_edit(requested, slot)
            if patch.target.of_instances is None:
                warnings = (*warnings, *doubts_around(patch, slot, getter_of(beneath(slot)) or value))
            if drift is not None and (change := drift.compare(patch, slot, owner)) is not None:
                if drift.policy == "skip":
                    return Outcome("skipped", change, warnings=warnings)
                warnings = (*warnings, change)
    except ApplyError as error:
        return _refused(requested, error, warnings)
    # A factory's result or a module's source decides: no process of the user runs the factory or the changed source.
    if patch.verb in ("derive", "enter") or patch.is_of_source:
        return Outcome("waiting", warnings=warnings, function=function)
    return Outcome("applied", reason, warnings=warnings, function=function)


def _by_matches(requested: Requested, drift: Drift | None) -> Outcome:
    """Check a rule of an imported module: each match by itself. The values of a ``source=`` are not checked here."""
    if requested.patch.source is not None or "*" in str(requested.patch.module):
        return Outcome("waiting")
    with imports.for_ourselves():
        from hookpatch._session.rules import Rule  # few patches are rules

    rule = Rule(requested, Ledger(), "warn", lambda request: lifecycle_of(request, (0, 0), Ledger(), "warn"))
    try:
        patches, in_words = rule.planned()
    except ApplyError as error:
        return _refused(requested, error, ())
    matches = [
        MatchOutcome(
            patch.address, patch.module, by_target(requested._replace(patch=patch, rule=requested), drift), patch.verb
        )
        for patch in patches
    ]
    failed = next((outcome for _, _, outcome, _ in matches if outcome.state == "failed"), None)
    return failed or Outcome("applied" if matches else "waiting", in_words, matches=tuple(matches))


def _check_signature(requested: Requested, slot: Slot) -> None:
    """Raise for a signature that a layer would refuse."""
    patch, value = requested.patch, beneath(slot)
    callee, is_bound = inner(value), binds(slot, value)
    if patch.is_around_calls and (parameters := takes(callee, is_bound)) is not None:
        given = as_code_takes(callee, parameters, is_bound) if patch.verb in GIVING_VERBS else parameters
        check_call(patch, given, requested.owner)


def _check_edit(requested: Requested, slot: Slot) -> None:
    """Raise if the original's source lacks a piece."""
    with imports.for_ourselves():
        from hookpatch._engine.source.edited import edited  # few patches edit

    value = beneath(slot)
    if requested.patch.reach == "everywhere":
        value = innermost(getter_of(value) or inner(value))
    original = value
    if type(value) is FunctionType and is_changed_in_place(value):
        original = copy_with_code(value, own_beneath(FunctionSlot(value, binds=False)))
    edited(original, requested.patch, requested.owner, slot.in_class)


def _refused(requested: Requested, error: ApplyError, warnings: tuple[str, ...]) -> Outcome:
    state: State = "failed" if requested.patch.required else "skipped"
    return Outcome(state, error.problem, type(error).__name__, warnings)
