"""Open a session to learn the outcome of each patch: the same code decides as in a run.

Imports the modules of the targets and applies the patches. Therefore a rehearsal runs in a throwaway process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hookpatch._bootstrap.interrupts import is_interrupt
from hookpatch._engine.lock.drift import Drift
from hookpatch._engine.patch.module_lookup import matching_modules
from hookpatch._engine.patch.patch import NOT_NEEDED, Patch, Verb
from hookpatch._engine.patch.target import Target
from hookpatch._engine.site.sites import patched
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import Slot
from hookpatch._session.ledger import Entry, Requested, compare
from hookpatch._session.session import Session, open_sessions
from hookpatch._session.span.leftovers import look_again
from hookpatch._session.span.part import SessionPart
from hookpatch.errors import HookpatchError, HookpatchWarning, TargetSyntaxError

State: TypeAlias = Literal["applied", "skipped", "failed", "waiting"]

# The exit status of a command by the worst result of a check or a plan.
SEVERITY: Final[Mapping[str, int]] = {
    **dict.fromkeys(("fits", "same"), 0),
    **dict.fromkeys(("absent", "compatible", "not looked at", "skipped", "unlocked"), 1),
    **dict.fromkeys(("broken", "changed", "conflict", "gone", "unfit"), 2),
}


class MatchOutcome(NamedTuple):
    """A match of a rule, or a part of an edited class.

    Attributes:
        address: the address of the target.
        module: the target's module, None for an object without an address.
        outcome: the outcome of the patch.
        verb: the verb of the patch.
    """

    address: str
    module: str | None
    outcome: Outcome
    verb: Verb


class Outcome(NamedTuple):
    """The outcome of a patch in a rehearsal.

    Attributes:
        state: as in the report of a run; *waiting*: the module was not imported, or no rehearsal was made.
        reason: why the patch is not applied.
        error: the class of the error that refused the patch, or of the error in the module's import.
        warnings: as in the report of a run.
        depth: sorts the applied patches of one target, the outermost first; None for other patches.
        matches: of a rule, the outcome of each match's patch.
        slot: the target's slot, if this process has imported the target.
        place: the slot of the layer, likewise: the target's function changed in place, or the target's slot.
    """

    state: State
    reason: str | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    depth: tuple[int, int] | None = None
    matches: tuple[MatchOutcome, ...] = ()
    slot: Slot | None = None
    place: Slot | None = None

    @property
    def is_missing(self) -> bool:
        """Return True if the module or the target does not exist."""
        return self.error in ("ModuleNotFoundError", "TargetNotFound")


def rehearse(
    requests: Sequence[Requested],
    also: Sequence[SessionPart] = (),
    drift: Drift | None = None,
    on_import: Callable[[str], object] = lambda module: None,
) -> list[Outcome]:
    """Open a session of all patches, import the modules, close the session; return the outcome of each patch.

    A required patch that refuses the whole session is noted, and the session is opened without the patch.
    ``on_import`` is called with the name of each module before the import.
    """
    outcomes: dict[int, Outcome] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HookpatchWarning)  # the ledger has the warnings
        remaining = list(range(len(requests)))
        while True:
            session = Session([requests[index] for index in remaining], also=also, drift=drift)
            try:
                session.open()
                break
            except Exception as error:  # a step to a target may run foreign code
                if is_interrupt(error):
                    raise
                failed = [entry for entry in session.entries if entry.state == "failed"]
                refused = {id(entry.request.rule or entry.request): entry for entry in failed}
                for index in list(remaining):
                    entry = refused.get(id(requests[index]))
                    if entry is not None or not refused:  # else the session as a whole was refused
                        outcomes[index] = _refused(error)
                        remaining.remove(index)
        try:
            outcomes |= _outcomes(session, {index: requests[index] for index in remaining}, on_import)
        finally:
            with suppress(HookpatchError):  # a patch may require calls, and a rehearsal makes no call
                session.close()
    return [outcomes[index] for index in range(len(requests))]


def _outcomes(
    session: Session, requests: Mapping[int, Requested], on_import: Callable[[str], object]
) -> dict[int, Outcome]:
    imported: dict[str | None, Outcome | None] = {None: None}
    for request in requests.values():
        if (module := request.patch.module) is not None and module not in imported:
            imported[module] = _import_matching(module, on_import)
    look_again()
    session.look_at_rules()
    compare(session.entries)
    depths = _depths(session)
    entries: dict[int, list[Entry]] = {}
    matches: dict[int, dict[int, list[Entry]]] = {}
    for entry in session.entries:
        rule = entry.request.rule
        of_asked = entries if rule is None else matches.setdefault(id(rule), {})
        of_asked.setdefault(id(entry.request), []).append(entry)
    outcomes: dict[int, Outcome] = {}
    for place, (index, request) in enumerate(requests.items()):
        outcome = _outcome(entries[id(request)], imported[request.patch.module], depths, place)
        of_matches = [
            MatchOutcome(
                of.request.patch.address,
                of.request.patch.module,
                _outcome(group, None, depths, place),
                of.request.patch.verb,
            )
            for group in matches.get(id(request), {}).values()
            for of in group[:1]
            if outcome.state in ("applied", "waiting")  # else no match is patched
        ]
        outcomes[index] = outcome._replace(matches=tuple(of_matches))
    return outcomes


def _outcome(
    entries: Sequence[Entry], imported: Outcome | None, depths: Mapping[tuple[int, str], tuple[int, int]], place: int
) -> Outcome:
    """Return the outcome of a patch from the patch's entries."""
    request = entries[0].request
    patch = request.patch
    of_target = [entry for entry in entries if entry.place is None]
    entry = next((entry for entry in of_target if entry.state != "applied"), of_target[-1])
    if entry.state == "waiting":
        never = f"{patch.module} was imported without a notice to hookpatch"
        return imported or Outcome("waiting", entry.shortfall or (entry.reason if patch.is_rule else never))
    if entry.state == "applied":
        reason = entry.reason if patch.is_rule else NOT_NEEDED if entry.is_needless else None
        return Outcome("applied", reason, warnings=entry.doubts, depth=depths.get((place, patch.address)))
    state: Any = entry.state
    return Outcome(state, short(request, entry.reason), entry.error)


def _import_matching(module: str, on_import: Callable[[str], object]) -> Outcome | None:
    """Import a module, or all modules matching a pattern; return the outcome of a failed import, else None.

    A matching module with a failing import is passed over: a run may never import the module.
    """
    if "*" not in module:
        on_import(module)
        return import_or_outcome(module)
    names = matching_modules(module)
    for name in names:
        on_import(name)
        import_or_outcome(name)
    return None if names else Outcome("waiting", f"there is no module {module}", "ModuleNotFoundError")


def import_or_outcome(module: str) -> Outcome | None:
    """Import a module; return the outcome of a failed import, else None."""
    try:
        import_module(module)
    except (Exception, SystemExit) as error:  # the module's code may raise any error
        problem = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, ModuleNotFoundError):
            if error.name is not None and f"{module}.".startswith(f"{error.name}."):
                return Outcome("waiting", f"there is no module {error.name}", "ModuleNotFoundError")
            problem = str(error)
        return Outcome("waiting", f"{module} cannot be imported: {problem}", "ImportError")
    return None


def _depths(session: Session) -> dict[tuple[int, str], tuple[int, int]]:
    """Return the depth of each applied patch of a session by place and address: a changed function is reached last."""
    number = next(number for number, open_session in open_sessions().items() if open_session is session)
    depths: dict[tuple[int, str], tuple[int, int]] = {}
    for site in patched():
        for index, layer in enumerate(site.layers):
            if layer.rank[0] == number:
                depth = int(isinstance(site.slot, FunctionSlot)), index
                key = -layer.rank[1], layer.patch.address
                depths[key] = min(depth, depths.get(key, depth))
    return depths


def _refused(error: Exception) -> Outcome:
    kind = type(error).__name__
    reason = str(error) if isinstance(error, HookpatchError) else f"opening the session raised {kind}: {error}"
    return Outcome("failed", getattr(error, "problem", None) or reason, kind)


def short(request: Requested, reason: str | None) -> str | None:
    """Return a reason without the target and the owner: a plan names both beside the reason."""
    if reason is None or not reason.endswith(f" of {request.owner})"):
        return reason
    return reason.rpartition(" (target ")[0] or reason


def with_matches(requests: Iterable[Requested], outcomes: Iterable[Outcome]) -> Iterator[tuple[Requested, Outcome]]:
    """Yield each patch with the outcome; after a rule, also the patch of each match with the match's outcome."""
    for request, outcome in zip(requests, outcomes, strict=True):
        yield request, outcome
        for address, module, of_match, verb in outcome.matches:
            patch = request.patch.of_match(_target(address, module), request.patch.change)
            if verb != patch.verb:  # an attribute of an edited class
                patch = replace(patch, verb=verb, reach="slot", change=None)
            yield request._replace(patch=patch, rule=request), of_match


def is_addressed(patch: Patch) -> bool:
    """Return False for a match without an address: only the text of the address came from the child process."""
    return patch.target is None or bool(patch.target.steps)


def _target(address: str, module: str | None) -> Target:
    """Return the target of a match; for an object of the child process a target with the address alone."""
    try:
        if module is not None:
            return Target(address)
    except TargetSyntaxError:  # the address contains an object without an address, for example a key
        pass
    target = Target.of_steps(None, object(), ())
    object.__setattr__(target, "address", address)
    return target
