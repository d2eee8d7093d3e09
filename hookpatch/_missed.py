"""What the patches of a session have missed: a module that never came, calls that were required."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hookpatch import _imports
from hookpatch._ledger import Asked, Entry, Key, State
from hookpatch._tally import too_few

_NOWHERE: Final[Mapping[Key, int]] = {}


def never_called(entries: Sequence[Entry]) -> list[str]:
    """Return which required patches are applied and have received no call, in words; none if none are counted."""
    return [
        f"{asked.patch.address} of {asked.owner}: {too_few(calls, 0)}"
        for asked, calls in _calls(entries)
        if not calls and asked.patch.required and not asked.patch.required_calls
    ]


def too_few_calls(entries: Sequence[Entry], elsewhere: Mapping[Key, int] = _NOWHERE) -> list[str]:
    """Return which patches were applied and have received fewer calls than they require, in words.

    Args:
        entries: those of a session.
        elsewhere: the patches that were applied in other processes, with their calls there.
    """
    requiring = {id(entry.asked): entry.asked for entry in entries if entry.asked.patch.required_calls}
    if not requiring:
        return []
    here = {id(asked): calls for asked, calls in _calls(entries)}
    sums = [
        (asked, here.get(number, 0) + elsewhere.get(asked.key, 0))
        for number, asked in requiring.items()
        if number in here or asked.key in elsewhere
    ]
    return [
        f"{asked.patch.address} of {asked.owner}: {too_few(calls, asked.patch.required_calls)}"
        for asked, calls in sums
        if calls < asked.patch.required_calls
    ]


def never_bound(entries: Sequence[Entry], elsewhere: Collection[Key] = ()) -> list[str]:
    """Return which required patches wait for their modules still, in words.

    Args:
        entries: those of a session.
        elsewhere: the patches that were applied in other processes, which are left out.
    """
    waiting = _in_vain([entry for entry in entries if entry.asked.key not in elsewhere], "waiting")
    return [
        f"{asked.patch.address} of {asked.owner}: never bound: {hint or f'{asked.patch.module} not imported'}"
        for asked, hint in waiting
    ]


def misspelt(entries: Sequence[Entry]) -> list[str]:
    """Return which required patches have waited for a module that there is not, but one of nearly that name, in words.

    Not each that there is not: many a module is made, or found, only by a program that needs it.
    """
    unused = _in_vain(entries, "unused")
    return [f"{asked.patch.address} of {asked.owner}: {hint}" for asked, hint in unused if hint]


def _in_vain(entries: Sequence[Entry], state: State) -> list[tuple[Asked, str]]:
    """Return the required patches whose module has not come, each with what module may have been meant."""
    waited = [entry.asked for entry in entries if entry.state == state and entry.asked.patch.required]
    if not waited:
        return []
    with _imports.for_ourselves():
        from hookpatch._presence import nearly  # few wait in vain

    hints = {module: nearly(module) for module in {str(asked.patch.module) for asked in waited}}
    return [(asked, hints[str(asked.patch.module)]) for asked in waited]


def _calls(entries: Sequence[Entry]) -> list[tuple[Asked, int]]:
    """Return the patches that are applied and counted, and the calls of each wherever it is."""
    calls: dict[int, tuple[Asked, int]] = {}
    for entry in entries:
        if entry.state == "applied" and entry.tally is not None:
            before = calls.get(id(entry.asked), (entry.asked, 0))[1]
            calls[id(entry.asked)] = entry.asked, before + sum(entry.tally.calls.values())
    return list(calls.values())
