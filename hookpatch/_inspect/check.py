"""Check whether the targets of plugins still fit, for ``hookpatch check`` and ``hookpatch lock``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.calls.signatures import takes
from hookpatch._engine.lock.compare import difference
from hookpatch._engine.lock.fingerprint import OF_MODULE, Fingerprint, of_slot
from hookpatch._engine.lock.lockfile import Lock, Locked, key_of
from hookpatch._engine.patch.versions import release_of
from hookpatch._engine.site.stand_in import binds
from hookpatch._engine.slots.originals import beneath
from hookpatch._engine.slots.resolve import seen_from
from hookpatch._engine.slots.slot import inner
from hookpatch._inspect.dry_run import by_version
from hookpatch._inspect.rehearsal import SEVERITY, Outcome, is_addressed, rehearse, with_matches
from hookpatch._session.ledger import Requested

Status: TypeAlias = Literal["fits", "same", "compatible", "unlocked", "skipped", "changed", "unfit", "broken", "gone"]


class Checked(NamedTuple):
    """The check of one target.

    Attributes:
        patches: plugin and verb of each patch on the target.
        status: *same* as locked, or *fits* without a lock file; *compatible*: changed, but still takes the same
            arguments; *unlocked*: fits, but is not in the lock file; *skipped*: an optional patch does not fit;
            *changed*: has another kind, or refuses arguments that it took; *unfit*: a guard refuses a patch;
            *broken*: the module cannot be imported; *gone*: the target does not exist.
        release: the target's distribution with the installed version.
        locked: the distribution and version in the lock file, None if not locked.
        reasons: the reasons for the status, the worst first.
        diff: the lines of a unified diff of the target's source.
        requires: the releases of distributions that the patches are made for.
    """

    target: str
    patches: tuple[str, ...]
    status: Status
    release: str
    locked: str | None = None
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """Return 0 if all is well, 1 if a person should look at the target, 2 if the target does not fit."""
        return SEVERITY[self.status]


def check(requests: Iterable[Requested], lock: Lock | None = None) -> list[Checked]:
    """Check the targets of patches, sorted by address. Imports the targets, applies the patches and restores them."""
    return [_checked(address, checks, lock) for address, checks in _by_address(requests)]


def lockable(requests: Iterable[Requested]) -> tuple[dict[str, Locked], list[Checked]]:
    """Return the entries for a lock file by address, and the targets that do not fit."""
    entries: dict[str, Locked] = {}
    problems: list[Checked] = []
    for address, checks in _by_address(requests):
        result = _checked(address, checks, None)
        fingerprint = next(filter(None, (check.fingerprint for check in checks)), None)
        if result.severity > 1:
            problems.append(result)
        elif fingerprint is not None and not address.startswith("<"):
            entries[address] = Locked(fingerprint, result.patches)
    return entries, problems


class _PatchCheck(NamedTuple):
    requested: Requested
    outcome: Outcome
    release: tuple[str, str]
    fingerprint: Fingerprint | None = None
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.requested.plugin or 'active()'}: {self.requested.patch.verb}"


def _by_address(requests: Iterable[Requested]) -> list[tuple[str, list[_PatchCheck]]]:
    requests = list(requests)
    checks: dict[str, list[_PatchCheck]] = {}
    for request, outcome in with_matches(requests, rehearse(requests)):
        checks.setdefault(key_of(request.patch) or request.patch.address, []).append(_check_patch(request, outcome))
    return sorted(checks.items())


def _check_patch(requested: Requested, outcome: Outcome) -> _PatchCheck:
    patch = requested.patch
    release = release_of(patch.module or (key_of(patch) or "").partition(":")[0])
    warnings = outcome.warnings or by_version(requested).warnings
    fingerprint = None
    if patch.is_rule:
        fingerprint = Fingerprint("a rule", *release, members=tuple(sorted(match.address for match in outcome.matches)))
    elif outcome.state != "waiting" and outcome.error != "TargetNotFound" and is_addressed(patch):
        try:
            fingerprint, warnings = _fingerprint(requested, release, warnings)
        except Exception as error:
            if outcome.state == "applied" or is_interrupt(error):
                raise  # else the outcome has the error
    return _PatchCheck(requested, outcome, release, fingerprint, warnings)


def _fingerprint(
    requested: Requested, release: tuple[str, str], warnings: tuple[str, ...]
) -> tuple[Fingerprint, tuple[str, ...]]:
    """Return the fingerprint of a patch's target, and the warnings."""
    patch, slot = requested.patch, None
    if patch.target is not None:
        slot = seen_from(patch.target, imports.loaded(patch.module) if patch.module else None, requested.owner)
        value = beneath(slot)
        if patch.expects and takes(inner(value), binds(slot, value)) is None:
            warnings = (*warnings, "it has no signature: hookpatch cannot check the arguments of the patch")
    fingerprint = OF_MODULE if slot is None else of_slot(slot)
    fingerprint = replace(fingerprint, distribution=release[0], version=release[1])
    return fingerprint, warnings


def _checked(address: str, checks: Sequence[_PatchCheck], lock: Lock | None) -> Checked:
    locked = None if lock is None else lock.targets.get(address)
    fingerprint = next(filter(None, (check.fingerprint for check in checks)), None)
    refused = [check for check in checks if check.outcome.state != "applied"]
    needed = [check for check in refused if check.requested.patch.required]
    result: dict[str, Any] = {"status": "fits" if lock is None else "unlocked"}
    if locked is not None and fingerprint is not None:
        change = difference(locked.fingerprint, fingerprint)
        result = {"status": change.change, "reasons": change.reasons, "diff": change.diff}
    elif lock is not None and key_of(checks[0].requested.patch) is None:
        result = {"status": "fits"}  # an object without an address is never locked
    if refused:
        worst = (needed or refused)[0]
        is_broken = worst.outcome.state == "waiting"
        status = "gone" if worst.outcome.is_missing else "broken" if is_broken else "unfit"
        result["status"] = status if needed else "skipped"
        result["reasons"] = (*dict.fromkeys(map(_refusal, refused)), *result.get("reasons", ()))
    return Checked(
        target=address,
        patches=tuple(map(str, checks)),
        release=" ".join(checks[0].release).strip(),
        locked=None if locked is None else locked.fingerprint.release,
        warnings=tuple(dict.fromkeys(text for check in checks for text in check.warnings)),
        requires=tuple(dict.fromkeys(text for check in checks for text in check.requested.patch.requirements)),
        **result,
    )


def _refusal(check: _PatchCheck) -> str:
    skipped = "" if check.requested.patch.required else f"{check} is skipped: "
    return f"{skipped}{check.outcome.reason}"
