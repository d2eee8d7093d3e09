"""Check a patch without applying: against the installed versions, or at a target imported by this process."""

from __future__ import annotations

from dataclasses import replace

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.lock.drift import Drift
from hookpatch._engine.patch.versions import check_requirement, unneeded
from hookpatch._engine.site.doubts import doubts, doubts_around
from hookpatch._engine.slots.guard import check_kept, getter_of, unchecked
from hookpatch._engine.slots.originals import beneath, own_beneath
from hookpatch._engine.slots.resolve import seen_from
from hookpatch._engine.slots.slot import inner
from hookpatch._inspect.rehearsal import MatchOutcome, Outcome, State
from hookpatch._session.ledger import Ledger, Requested
from hookpatch._session.lifecycle.kinds import lifecycle_of
from hookpatch._session.lifecycle.slots import SlotLifecycle
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


def by_target(requested: Requested, drift: Drift | None, ledger: Ledger) -> Outcome:
    """Check one patch, without a module or of an imported module, as a session does before it applies a patch.

    ``ledger`` has the entries of all patches.
    """
    outcome = by_version(requested)
    if requested.patch.is_rule:
        return outcome if outcome.state != "waiting" else _by_matches(requested, drift, ledger)
    patch, owner, warnings = requested.patch, requested.owner, outcome.warnings
    module = None if patch.module is None else imports.loaded(patch.module)
    if outcome.state != "waiting" or (module is None and patch.module is not None):  # the import is running
        return outcome
    # A session skips the check of an optional patch, and finds out when it applies the patch.
    as_required = requested._replace(patch=replace(patch, required=True))
    try:
        if patch.target is None:
            lifecycle_of(as_required, (0, 0), ledger, "warn", drift=drift).check()
            return outcome  # a context manager, or the source of the module, is run in the child process
        slot = seen_from(patch.target, module, owner)
        value = inner(beneath(slot))
        outcome = outcome._replace(slot=slot, place=slot)
        # The child process reads a source, which may need an import, and runs the statements of an edited class.
        if patch.source is not None or (patch.verb == "edit" and issubclass(type(value), type)):
            return outcome
        lifecycle = lifecycle_of(as_required, (0, 0), ledger, "warn", drift=drift)
        lifecycle.check()
        if isinstance(lifecycle, SlotLifecycle):
            outcome = outcome._replace(place=lifecycle.place(module))
            value = getter_of(beneath(slot)) or value
        warnings = (*warnings, *doubts(patch, slot, own_beneath(slot), value))
        if isinstance(lifecycle, SlotLifecycle):
            warnings = (*warnings, *doubts_around(patch, slot, value))
        if drift is not None and (change := drift.compare(patch, slot, owner)) is not None:
            if drift.policy == "skip":
                return Outcome("skipped", change, warnings=warnings)
            warnings = (*warnings, change)
    except ApplyError as error:
        return _refused(requested, error, warnings)._replace(place=outcome.place)
    except Exception as error:
        if is_interrupt(error):
            raise
        return outcome  # the child process finds the error of the foreign code
    # A factory's result decides: no process of the user runs the factory.
    state: State = "waiting" if patch.verb == "derive" else "applied"
    return outcome._replace(state=state, warnings=warnings)


def _by_matches(requested: Requested, drift: Drift | None, ledger: Ledger) -> Outcome:
    """Check a rule of an imported module: each match by itself. The values of a ``source=`` are not checked here."""
    if requested.patch.source is not None or "*" in str(requested.patch.module):
        return Outcome("waiting")
    with imports.for_ourselves():
        from hookpatch._session.rules import Rule  # few patches are rules

    rule = Rule(requested, ledger, "warn", lambda request: lifecycle_of(request, (0, 0), ledger, "warn"))
    try:
        patches, in_words = rule.planned()
    except ApplyError as error:
        return _refused(requested, error, ())
    matches = [
        MatchOutcome(
            patch.address,
            patch.module,
            by_target(requested._replace(patch=patch, rule=requested), drift, ledger),
            patch.verb,
        )
        for patch in patches
    ]
    failed = next((outcome for _, _, outcome, _ in matches if outcome.state == "failed"), None)
    return failed or Outcome("applied" if matches else "waiting", in_words, matches=tuple(matches))


def _refused(requested: Requested, error: ApplyError, warnings: tuple[str, ...]) -> Outcome:
    state: State = "failed" if requested.patch.required else "skipped"
    return Outcome(state, error.problem, type(error).__name__, warnings)
