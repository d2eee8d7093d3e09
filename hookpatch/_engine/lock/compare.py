"""Compare a target with its locked fingerprint."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from hookpatch._engine.calls.signatures import from_text, misfit
from hookpatch._engine.lock.fingerprint import Fingerprint, normalised

Change: TypeAlias = Literal["same", "compatible", "changed"]
_Reasons: TypeAlias = Iterator[tuple[bool, str]]  # True for a breaking change, and the change in words


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """The changes of a target since it was locked. Frozen.

    *compatible*: changed, but all locked calls are still accepted. *changed*: of another kind, or a locked call or
    member is lost.
    """

    change: Change
    reasons: tuple[str, ...] = ()  # in words, the worst first
    diff: tuple[str, ...] = ()  # the lines of a unified diff of the source


def difference(locked: Fingerprint, installed: Fingerprint) -> Difference:
    """Return the changes from one fingerprint to another. A new version alone is no change."""
    if locked.kind != installed.kind:
        reasons = [(True, f"it was {locked.kind} and is {installed.kind}")]
    else:
        reasons = [*_of_signature("it", locked.signature, installed.signature), *_of_members(locked, installed)]
        reasons += _of_keys(locked, installed)
        sources = {locked.source, installed.source}  # normalised again: another Python may have written the lock file
        if len(sources) > 1 and (None in sources or len({normalised(source or "") for source in sources}) > 1):
            reasons.append((False, "its source has changed"))
    if not reasons:
        return Difference("same")
    reasons.sort(key=lambda reason: not reason[0])
    heads = f"locked ({locked.release})", f"installed ({installed.release})"
    before, after = (normalised(fingerprint.source or "").splitlines() for fingerprint in (locked, installed))
    diff = difflib.unified_diff(before, after, *heads, lineterm="")
    return Difference("changed" if reasons[0][0] else "compatible", tuple(words for _, words in reasons), tuple(diff))


def _of_signature(name: str, locked: str | None, installed: str | None) -> _Reasons:
    if locked == installed:
        return
    words = f"{name} took {locked or 'unknown arguments'} and takes {installed or 'unknown arguments'}"
    if locked is None or installed is None:
        yield False, words
        return
    failure = misfit(from_text(installed), from_text(locked), "a call")
    yield failure is not None, words if failure is None else f"{words}: {failure}"


def _of_members(locked: Fingerprint, installed: Fingerprint) -> _Reasons:
    before, after = (
        {
            name: bracket + parameters or None
            for name, bracket, parameters in (member.partition("(") for member in members)
        }
        for members in (locked.members, installed.members)
    )
    for name, signature in before.items():
        if name not in after:
            yield True, f"{name} has gone"
        else:
            yield from _of_signature(name, signature, after[name])
    if new := after.keys() - before.keys():
        yield False, f"new: {', '.join(sorted(new))}"


def _of_keys(locked: Fingerprint, installed: Fingerprint) -> _Reasons:
    for words, all_keys, other_keys in (("gone", locked.keys, installed.keys), ("new", installed.keys, locked.keys)):
        if keys := [key for key in all_keys if key not in other_keys]:
            yield False, f"{words} among the keys: {', '.join(keys)}"
