"""Open a session to see what becomes of its patches: the code that decides in a run decides here.

Imports the modules of the targets and applies the patches, so it belongs into a process that is thrown away.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from hookpatch._engine.lock.drift import Drift
from hookpatch._engine.site.sites import patched
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._session.ledger import Entry, Requested
from hookpatch._session.session import Also, Session, look_again, open_sessions
from hookpatch.errors import HookpatchError, HookpatchWarning

State: TypeAlias = Literal["applied", "skipped", "failed", "waiting"]

# The exit status of a command by the worst result of a check or a plan.
SEVERITY: Final[Mapping[str, int]] = {
    **dict.fromkeys(("fits", "same"), 0),
    **dict.fromkeys(("absent", "compatible", "not looked at", "skipped", "unlocked"), 1),
    **dict.fromkeys(("broken", "changed", "conflict", "gone", "unfit"), 2),
}


class Outcome(NamedTuple):
    """What became of one patch in a rehearsal.

    Attributes:
        state: as in the report of a run; *waiting*: its module was not imported, or nobody looked.
        reason: why the patch is not applied.
        error: the class of the error that refused the patch, or that the import of its module raised.
        warnings: as in the report of a run.
        depth: sorts the applied patches of one target, the outermost first; None for other patches.
    """

    state: State
    reason: str | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()
    depth: tuple[int, int] | None = None

    @property
    def is_gone(self) -> bool:
        """Return True if the module or the target does not exist."""
        return self.error in ("ModuleNotFoundError", "TargetNotFound")


def rehearse(
    requests: Sequence[Requested],
    also: Sequence[Also] = (),
    drift: Drift | None = None,
    on_import: Callable[[str], object] = lambda module: None,
) -> list[Outcome]:
    """Open a session of all patches, import their modules, close the session; return the outcome of each patch.

    A required patch that refuses the whole session is noted, and the session is opened without it. ``on_import`` is
    called with the name of each module before its import.
    """
    outcomes: dict[int, Outcome] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HookpatchWarning)  # the ledger has them
        left = list(range(len(requests)))
        while True:
            session = Session([requests[index] for index in left], also=also, drift=drift)
            try:
                session.open()
                break
            except Exception as error:  # a step to a target may run foreign code
                refused = {id(entry.asked): entry for entry in session.entries if entry.state == "failed"}
                for index in list(left):
                    entry = refused.get(id(requests[index]))
                    if entry is not None or not refused:  # else the session as a whole was refused
                        outcomes[index] = _refused(error)
                        left.remove(index)
        try:
            outcomes |= _outcomes(session, {index: requests[index] for index in left}, on_import)
        finally:
            with suppress(HookpatchError):  # nobody has made the calls that a patch requires
                session.close()
    return [outcomes[index] for index in range(len(requests))]


def _outcomes(
    session: Session, requests: Mapping[int, Requested], on_import: Callable[[str], object]
) -> dict[int, Outcome]:
    imported: dict[str | None, Outcome | None] = {None: None}
    for request in requests.values():
        if (module := request.patch.module) is not None and module not in imported:
            on_import(module)
            imported[module] = _import(module)
    look_again()
    depths = _depths(session)
    entries: dict[int, list[Entry]] = {}
    for entry in session.entries:
        entries.setdefault(id(entry.asked), []).append(entry)
    outcomes: dict[int, Outcome] = {}
    for place, (index, request) in enumerate(requests.items()):
        of_target = [entry for entry in entries[id(request)] if entry.place is None]
        entry = next((entry for entry in of_target if entry.state != "applied"), of_target[-1])
        if entry.state == "waiting":
            never = Outcome("waiting", f"{request.patch.module} was imported without a notice to hookpatch")
            outcomes[index] = imported[request.patch.module] or never
        elif entry.state == "applied":
            outcomes[index] = Outcome("applied", warnings=entry.doubts, depth=depths.get(place))
        else:
            state: Any = entry.state
            outcomes[index] = Outcome(state, short(request, entry.reason), entry.error)
    return outcomes


def _import(module: str) -> Outcome | None:
    """Import a module; return why that cannot be done, None if it can."""
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


def _depths(session: Session) -> dict[int, tuple[int, int]]:
    """Return the depth of each applied patch of a session by its place: calls reach a changed function last."""
    number = next(number for number, other in open_sessions().items() if other is session)
    depths: dict[int, tuple[int, int]] = {}
    for site in patched():
        for index, layer in enumerate(site.layers):
            if layer.rank[0] == number:
                depth = int(isinstance(site.slot, FunctionSlot)), index
                depths[-layer.rank[1]] = min(depth, depths.get(-layer.rank[1], depth))
    return depths


def _refused(error: Exception) -> Outcome:
    kind = type(error).__name__
    reason = str(error) if isinstance(error, HookpatchError) else f"opening the session raised {kind}: {error}"
    return Outcome("failed", getattr(error, "problem", None) or reason, kind)


def short(request: Requested, reason: str | None) -> str | None:
    """Return a reason without the target and the owner, which stand beside it."""
    return None if reason is None else reason.removesuffix(f" (target {request.patch.address} of {request.owner})")
