"""Whether the targets of plugins still fit: what ``hookpatch check`` prints, and what ``hookpatch lock`` writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._difference import difference
from hookpatch._fingerprint import OF_MODULE, Fingerprint, of_slot
from hookpatch._ledger import Asked
from hookpatch._lock import Lock, Locked, key_of
from hookpatch._release import release_of
from hookpatch._verdict import Verdict, by_target

Status: TypeAlias = Literal["fits", "same", "compatible", "unlocked", "skipped", "changed", "unfit", "broken", "gone"]

# By how bad they are, and the exit status of a check that finds them.
SEVERITY: Final[Mapping[str, int]] = {
    "fits": 0,
    "same": 0,
    "unlocked": 1,
    "compatible": 1,
    "skipped": 1,
    "changed": 2,
    "unfit": 2,
    "broken": 2,
    "gone": 2,
}


@final
@dataclass(frozen=True, slots=True)
class Checked:
    """What has become of one target. Frozen.

    Attributes:
        target: its address.
        patches: which plugins patch it, and how, in words.
        status: *same* as locked, or *fits* where there is no lock file; *compatible*: changed, and it takes what it
            took; *unlocked*: it fits, and is not in the lock file; *skipped*: an optional patch does not fit;
            *changed*: it is of another kind, or no longer takes what it took; *unfit*: a guard refuses a patch;
            *broken*: its module cannot be imported; *gone*.
        release: the distribution that has it, with the installed version.
        locked: the same as it was locked, None if it was not.
        reasons: why, in words, the worst first.
        warnings: what else is to be said: that a patch is not needed any more, that something is not known.
        diff: the lines of a unified diff of its source.
    """

    target: str
    patches: tuple[str, ...]
    status: Status
    release: str
    locked: str | None = None
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """0 when it is as it should be, 1 when it is to be looked at, 2 when it does not fit."""
        return SEVERITY[self.status]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def check(asked: Iterable[Asked], lock: Lock | None = None) -> list[Checked]:
    """Return what has become of the targets of patches, by address. Imports them, and applies nothing."""
    looks = _looks(asked)
    return [_checked(address, looks[address], lock) for address in sorted(looks)]


def lockable(asked: Iterable[Asked]) -> tuple[dict[str, Locked], list[Checked]]:
    """Return what to write into a lock file, by address; and the targets that do not fit."""
    targets: dict[str, Locked] = {}
    problems: list[Checked] = []
    for address, looks in sorted(_looks(asked).items()):
        result = _checked(address, looks, None)
        found = next((look.found for look in looks if look.found is not None), None)
        if result.severity > 1:
            problems.append(result)
        elif found is not None and not address.startswith("<"):
            targets[address] = Locked(found, result.patches)
    return targets, problems


@final
@dataclass(frozen=True, slots=True)
class _Look:
    """One patch, looked at."""

    asked: Asked
    verdict: Verdict
    found: Fingerprint | None
    release: tuple[str, str]
    is_broken: bool = False


def _looks(asked: Iterable[Asked]) -> dict[str, list[_Look]]:
    looks: dict[str, list[_Look]] = {}
    for one in asked:
        looks.setdefault(key_of(one.patch) or one.patch.address, []).append(_look(one))
    return looks


def _look(asked: Asked) -> _Look:
    name = asked.patch.module
    release = release_of(name or (key_of(asked.patch) or "").partition(":")[0])
    try:
        module = None if name is None else _imported(name)
    except _NotImported as error:
        return _Look(asked, Verdict(str(error), is_gone=error.is_gone), None, release, is_broken=not error.is_gone)
    verdict, slot = by_target(asked, module)
    found = OF_MODULE if asked.patch.target is None else None if slot is None else of_slot(slot)
    if found is not None:
        found = replace(found, distribution=release[0], version=release[1])
    return _Look(asked, verdict, found, release)


class _NotImported(Exception):
    """A target's module cannot be imported."""

    def __init__(self, words: str, is_gone: bool) -> None:
        self.is_gone: Final = is_gone
        super().__init__(words)


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _NotImported(f"there is no module {error.name}", is_gone=True) from error
        raise _NotImported(f"{name} cannot be imported: {error}", is_gone=False) from error
    except Exception as error:  # whatever its code raises
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        raise _NotImported(f"{name} cannot be imported: {words}", is_gone=False) from error


def _checked(address: str, looks: Sequence[_Look], lock: Lock | None) -> Checked:
    was = None if lock is None else lock.targets.get(address)
    found = next((look.found for look in looks if look.found is not None), None)
    refused = [look for look in looks if not look.verdict.fits]
    # One that is not required is skipped where it does not fit: that is to be looked at, and breaks nothing.
    needed = [look for look in refused if look.asked.patch.required]
    result: dict[str, Any] = {"status": "fits" if lock is None else "unlocked"}
    if was is not None and found is not None:
        change = difference(was.fingerprint, found)
        result = {"status": change.change, "reasons": change.reasons, "diff": change.diff}
    elif lock is not None and key_of(looks[0].asked.patch) is None:
        result = {"status": "fits"}  # an object at hand is not locked
    if refused:
        worst = (needed or refused)[0]
        status = "gone" if worst.verdict.is_gone else "broken" if worst.is_broken else "unfit"
        result["status"] = status if needed else "skipped"
        result["reasons"] = (*dict.fromkeys(map(_refusal, refused)), *result.get("reasons", ()))
    said = [text for look in looks for text in (look.verdict.unneeded, look.verdict.unknown) if text]
    return Checked(
        target=address,
        patches=tuple(_words(look.asked) for look in looks),
        release=" ".join(looks[0].release).strip(),
        locked=None if was is None else was.fingerprint.release,
        warnings=tuple(dict.fromkeys(said)),
        **result,
    )


def _refusal(look: _Look) -> str:
    skipped = "" if look.asked.patch.required else f"{_words(look.asked)} is skipped: "
    return f"{skipped}{look.verdict.problem}"


def _words(asked: Asked) -> str:
    return f"{asked.plugin or 'active()'}: {asked.patch.verb}"
