"""Find the patches of a session without effect: a module never imported, too few calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hookpatch._bootstrap import imports
from hookpatch._engine.site.layers.call_count import too_few
from hookpatch._session.ledger import Entry, Key, Requested, State, compare

_NOWHERE: Final[Mapping[Key, int]] = {}


def never_called(entries: Sequence[Entry]) -> list[str]:
    """Return, in words, the required applied patches with counted calls that have received no call."""
    return [
        f"{request.patch.address} of {request.owner}: {too_few(calls, 0)}"
        for request, calls in _calls(entries)
        if not calls and request.patch.required and not request.patch.required_calls
    ]


def too_few_calls(entries: Sequence[Entry], elsewhere: Mapping[Key, int] = _NOWHERE) -> list[str]:
    """Return, in words, the applied patches with fewer calls than required.

    ``elsewhere``: the calls of the patches applied in other processes.
    """
    requiring = {id(request): request for request in map(_requested_patch, entries) if request.patch.required_calls}
    if not requiring:
        return []
    calls_here = {id(request): calls for request, calls in _calls(entries)}
    sums = [
        (request, calls_here.get(number, 0) + elsewhere.get(request.key, 0))
        for number, request in requiring.items()
        if number in calls_here or request.key in elsewhere
    ]
    return [
        f"{request.patch.address} of {request.owner}: {too_few(calls, request.patch.required_calls)}"
        for request, calls in sums
        if calls < request.patch.required_calls
    ]


def too_few_matches(entries: Sequence[Entry]) -> list[str]:
    """Return, in words, the required rules with fewer matches than required."""
    return [
        f"{entry.shortfall} (of {entry.request.owner})"
        for entry in entries
        if entry.shortfall and entry.request.patch.required and entry.state != "failed"
    ]


def never_applied(entries: Sequence[Entry], elsewhere: Collection[Key] = ()) -> list[str]:
    """Return, in words, the required patches still waiting for a module and not applied elsewhere."""
    waiting = _with_hints([entry for entry in entries if entry.request.key not in elsewhere], "waiting")
    return [
        f"{request.patch.address} of {request.owner}: was never applied: "
        + (hint or f"the program did not import {request.patch.module}")
        for request, hint in waiting
    ]


def overwritten(entries: Sequence[Entry]) -> list[str]:
    """Return, in words, the applied patches overwritten by other code."""
    compare(entries)
    return [
        f"{entry.request.patch.address} of {entry.request.owner}: overwritten: {entry.reason}"
        for entry in entries
        if entry.state == "overwritten"
    ]


def misspelt(entries: Sequence[Entry]) -> list[str]:
    """Return, in words, the required patches of a missing module, if a module with a similar name exists.

    Modules named in ``callers=`` count, too. Other missing modules are not reported: a program may make or find modules
    itself.
    """
    never = [*_with_hints(entries, "unused"), *_with_hints(entries, "waiting")]
    hints = [(request, hint) for request, hint in never if hint] + _never_callers(entries)
    return [f"{request.patch.address} of {request.owner}: {hint}" for request, hint in hints]


def _never_callers(entries: Sequence[Entry]) -> list[tuple[Requested, str]]:
    """Return the required patches for callers of a module that does not exist, each with a hint at a similar name."""
    requests = {id(entry.request): entry.request for entry in entries if entry.request.patch.callers}
    required = [request for request in requests.values() if request.patch.required]
    if not required:
        return []
    with imports.for_ourselves():
        from hookpatch._engine.patch.module_lookup import fixed_part, nearly, no_such_code  # for few sessions

    named = [(request, pattern) for request in required for pattern in request.patch.callers]
    hints = [(request, nearly(fixed_part(name.partition(":")[0])) or no_such_code(name)) for request, name in named]
    return [(request, f"callers=: {hint}") for request, hint in hints if hint]


def _with_hints(entries: Sequence[Entry], state: State) -> list[tuple[Requested, str]]:
    """Return the required patches in a state, each with a hint at a module of a similar name."""
    waited = [
        entry.request
        for entry in entries
        if entry.state == state and entry.request.patch.required and not entry.shortfall
    ]
    if not waited:
        return []
    with imports.for_ourselves():
        from hookpatch._engine.patch.module_lookup import nearly  # imported for few sessions

    # Of a pattern, the packages before the first ``*``.
    hints = {module: nearly(module) for module in {str(request.patch.module) for request in waited} if module}
    return [(request, hints[str(request.patch.module)]) for request in waited]


def _calls(entries: Sequence[Entry]) -> list[tuple[Requested, int]]:
    """Return the applied patches with counted calls, each with the sum of the calls: a rule counts as one patch."""
    calls: dict[int, tuple[Requested, int]] = {}
    for entry in entries:
        if entry.state in ("applied", "overwritten") and entry.tally is not None:
            request = _requested_patch(entry)
            before = calls.get(id(request), (request, 0))[1]
            calls[id(request)] = request, before + sum(entry.tally.calls.values())
    return list(calls.values())


def _requested_patch(entry: Entry) -> Requested:
    """Return the requested patch: for a match the rule."""
    return entry.request.rule or entry.request
