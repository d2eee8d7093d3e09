"""What has become of a target since it was locked."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from hookpatch._calls import from_text, misfit
from hookpatch._fingerprint import Fingerprint
from hookpatch._source import normalised

Change: TypeAlias = Literal["same", "compatible", "changed"]


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """What has become of a target. Frozen.

    Attributes:
        change: *same*; *compatible*: something has changed, and it takes the calls that it took; *changed*: it is of
            another kind, does not take a call that it took, or lacks what it had.
        reasons: what has changed, in words, the worst first.
        diff: the lines of a unified diff of its source.
    """

    change: Change
    reasons: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


def difference(locked: Fingerprint, now: Fingerprint) -> Difference:
    """Return what has changed from one fingerprint to the other. That the version is another one is no change."""
    if locked.kind != now.kind:
        return Difference("changed", (f"it was {locked.kind} and is {now.kind}",), tuple(_diff(locked, now)))
    found = [*_of_signature("it", locked.signature, now.signature), *_of_members(locked, now), *_of_keys(locked, now)]
    if not _is_same_source(locked, now):
        found.append((False, "its source has changed"))
    if not found:
        return Difference("same")
    found.sort(key=lambda one: not one[0])
    change: Change = "changed" if found[0][0] else "compatible"
    return Difference(change, tuple(reason for _, reason in found), tuple(_diff(locked, now)))


# Each yields what has changed: whether that breaks what was right before, and the words.


def _of_signature(who: str, locked: str | None, now: str | None) -> Iterator[tuple[bool, str]]:
    if locked == now:
        return
    said = f"{who} took {locked or 'what it does not tell'} and takes {now or 'what it does not tell'}"
    if locked is None or now is None:
        yield False, said
        return
    failure = misfit(from_text(now), from_text(locked), "a call")
    yield failure is not None, said if failure is None else f"{said}: {failure}"


def _of_members(locked: Fingerprint, now: Fingerprint) -> Iterator[tuple[bool, str]]:
    before, after = (dict(map(_parted, one.members)) for one in (locked, now))
    for name, signature in before.items():
        if name not in after:
            yield True, f"{name} has gone"
        else:
            yield from _of_signature(name, signature, after[name])
    if new := after.keys() - before.keys():
        yield False, f"new: {', '.join(sorted(new))}"


def _parted(member: str) -> tuple[str, str | None]:
    name, bracket, rest = member.partition("(")
    return name, f"{bracket}{rest}" or None


def _of_keys(locked: Fingerprint, now: Fingerprint) -> Iterator[tuple[bool, str]]:
    for words, some, others in (("gone", locked.keys, now.keys), ("new", now.keys, locked.keys)):
        if keys := [key for key in some if key not in others]:
            yield False, f"{words} among the keys: {', '.join(keys)}"


def _is_same_source(locked: Fingerprint, now: Fingerprint) -> bool:
    """Tell whether the sources are one: also where another Python has written the locked one."""
    if locked.source == now.source:
        return True
    return None not in (locked.source, now.source) and normalised(locked.source or "") == normalised(now.source or "")


def _diff(locked: Fingerprint, now: Fingerprint) -> Iterator[str]:
    before, after = (normalised(one.source or "").splitlines() for one in (locked, now))
    heads = f"locked ({locked.release})", f"installed ({now.release})"
    return difflib.unified_diff(before, after, *heads, lineterm="")
