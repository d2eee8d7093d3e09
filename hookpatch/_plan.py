"""What would be patched, in which order, and whether it fits: no target is imported, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch import _imports
from hookpatch._active import asked_for
from hookpatch._layer import Layer
from hookpatch._ledger import Asked
from hookpatch._load import load, relations_here
from hookpatch._lock import key_of
from hookpatch._order import ordered
from hookpatch._patch import Patch
from hookpatch._presence import Presence, presence_of
from hookpatch._relations import check
from hookpatch._release import release_of
from hookpatch._selection import normalise
from hookpatch._target import a_kind
from hookpatch._verdict import by_target, by_version
from hookpatch.errors import ApplyError, ConflictError, OrderError, SettingError

Finding: TypeAlias = Literal["fits", "absent", "skipped", "unfit", "conflict"]

# By how bad they are, and the exit status of a plan that has them: as those of a check.
SEVERITY: Final[Mapping[str, int]] = {"fits": 0, "absent": 1, "skipped": 1, "unfit": 2, "conflict": 2}


@final
@dataclass(frozen=True, slots=True)
class PlannedPatch:
    """What would become of one patch. Frozen.

    Attributes:
        place: its place among the patches on its target, 1 is the outermost; None when it would not get there.
        plugin: the plugin's name, None for a patch given to ``plan``.
        distribution: the plugin's distribution with its version, None likewise.
        verb, reach, required: as the patch declares them.
        finding: what the guards say: *fits*; *absent*: its module is not found, and it would wait for it;
            *skipped*: it does not fit, and is not required; *unfit*: it does not fit; *conflict*: it cannot lie there
            with those that were selected before it, or all of them cannot be put in order.
        reason: why it is not *fits*; None when it is.
        warnings: what else speaks against it: that it is not needed any more, that something is not known.
        why: what the patch says is wrong at the target.
        upstream: the link it gives.
    """

    place: int | None
    plugin: str | None
    distribution: str | None
    verb: str
    reach: str
    required: bool
    finding: Finding
    reason: str | None
    warnings: tuple[str, ...]
    why: str | None
    upstream: str | None


@final
@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """One target and the patches on it. Frozen.

    Two addresses of one thing are two targets here: that they are one is known once their modules are imported.

    Attributes:
        target: its address as the patches have it; for ``enter`` the module.
        module: the module whose import makes it possible, None for objects at hand.
        distribution: the distribution that has the module, None if none has.
        version: the version of that which is installed, None likewise.
        installed: True when the module can be found; None when only what contains it could tell, once that is imported.
        imported: True when it is imported already: its patches were looked at as it is, and would be applied at once.
        patches: the outermost first; behind them those that would not get there.
    """

    target: str
    module: str | None
    distribution: str | None
    version: str | None
    installed: bool | None
    imported: bool
    patches: tuple[PlannedPatch, ...]

    def __str__(self) -> str:
        lines = [f"{self.target}  ({self.in_words})"]
        for patch in self.patches:
            place = "-" if patch.place is None else patch.place
            reach = ", everywhere" if patch.reach == "everywhere" else ""
            origin = BY_HAND if patch.plugin is None else f"{patch.plugin} from {patch.distribution}"
            reason = f": {patch.reason}" if patch.reason else ""
            lines.append(f"  {place}  {patch.verb}{reach}  {origin}  {WORDS[patch.finding]}{reason}")
            lines += [f"     warning: {said}" for said in patch.warnings]
        return "\n".join(lines)

    @property
    def in_words(self) -> str:
        """What is known of the module, in words."""
        release = " ".join(filter(None, (self.distribution, self.version)))
        known = "not found" if self.installed is False else "not imported yet"
        if self.imported:
            known = "imported already" if self.module is not None else "an object at hand"
        return f"{release}, {known}" if release else known


BY_HAND: Final = "given by hand"
WORDS: Final[Mapping[Finding, str]] = {
    "fits": "fits",
    "absent": "would wait",
    "skipped": "does not fit, would be skipped",
    "unfit": "does not fit",
    "conflict": "cannot lie there",
}


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """What would be patched. Frozen; its text is a block of lines a target, iterating gives the targets.

    Attributes:
        targets: the targets, as they were selected.
        idle: the plugins that would patch nothing, as they were named.
    """

    targets: tuple[PlannedTarget, ...]
    idle: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 when all fits, 1 when something is to be looked at, 2 when something does not fit."""
        return max((SEVERITY[patch.finding] for target in self.targets for patch in target.patches), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON schema has it: the attributes by their names, and ``status``."""
        return {"status": self.status, **asdict(self)}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._json import written  # as in _report.py

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[PlannedTarget]:
        return iter(self.targets)

    def __str__(self) -> str:
        lines = [*map(str, self.targets), *(f"{plugin} patches nothing" for plugin in self.idle)]
        return "\n".join(lines) or "no patches"


def plan(*what: str | Patch, options: Mapping[str, Mapping[str, Any]] | None = None) -> Plan:
    """Return what ``active`` of the same would patch here, in which order, and whether it fits.

    Imports the plugins and no target, and changes nothing. Versions are compared; of a module that is imported
    already the target is looked at, too. What ``hookpatch plan`` prints.

    Args:
        *what: names of installed plugins and patches.
        options: options by plugin name.

    Raises:
        SelectionError: a name or an option is none; a plugin needs one that is not on, or cannot be on together with
            another.
        PluginError: a plugin cannot be loaded.
    """
    for item in what:
        if not isinstance(item, (str, Patch)):
            raise SettingError("plan()", f"takes plugin names and patches, not {a_kind(item)}")
    names = [item for item in what if isinstance(item, str)]
    selection = asked_for(names, options, "plan()")
    host, by_name = load(selection)
    if host is not None:
        check(host.relations, selection.asked_by, relations_here())
    idle = [name for name in selection.names if by_name.get(normalise(name)) == []]
    asked: list[Asked] = []
    for item in what:
        asked += [Asked(item)] if isinstance(item, Patch) else by_name.pop(normalise(item), [])
    return plan_of(asked, idle)


def plan_of(asked: Iterable[Asked], idle: Iterable[str] = ()) -> Plan:
    """Return what would become of patches, in the order in which they are asked for; ``idle``: plugins without one."""
    together: dict[str | tuple[int, str], list[Asked]] = {}
    for one in asked:
        target = one.patch.target  # objects at hand may look alike
        together.setdefault(key_of(one.patch) or (id(target and target.start), one.patch.address), []).append(one)
    return Plan(tuple(map(_target, together.values())), tuple(idle))


def _target(asked: Sequence[Asked]) -> PlannedTarget:
    """Return what would become of the patches on one target."""
    address, module = asked[0].patch.address, asked[0].patch.module
    presence = Presence(installed=True, imported=True) if module is None else presence_of(module)
    distribution, version = release_of(module or address.partition(":")[0])
    looks = [_look(one, presence) for one in asked]
    patches = [_patch(one, look) for one, look in zip(asked, _in_order(address, asked, looks), strict=True)]
    return PlannedTarget(
        target=address,
        module=module,
        distribution=distribution or None,
        version=version or None,
        installed=presence.installed,
        imported=presence.imported,
        patches=tuple(sorted(patches, key=lambda patch: (patch.place is None, patch.place))),
    )


@final
@dataclass(frozen=True, slots=True)
class _Look:
    """One patch, looked at."""

    finding: Finding
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    place: int | None = None


def _look(asked: Asked, presence: Presence) -> _Look:
    """Look at one patch by itself."""
    patch = asked.patch
    module = None if patch.module is None else _imports.loaded(patch.module)
    is_there = module is not None or patch.module is None
    verdict = by_target(asked, module)[0] if is_there else by_version(asked)
    said = tuple(text for text in (verdict.unneeded, verdict.unknown) if text)
    if presence.installed is False:
        return _Look("absent", "; ".join(filter(None, (presence.missing, verdict.problem))), said)
    if verdict.fits:
        return _Look("fits", None, said)
    return _Look("unfit" if patch.required else "skipped", verdict.problem, said)


def _in_order(address: str, asked: Sequence[Asked], looks: Sequence[_Look]) -> list[_Look]:
    """Put the patches on one target in order, as a session does: one after the other, as they were selected."""
    looks = list(looks)
    chain: list[Layer] = []
    at: dict[Layer, int] = {}
    for number, one in enumerate(asked):
        if looks[number].finding not in ("fits", "absent"):
            continue
        layer = Layer(one.patch, one.plugin, one.owner, (1, -number), distribution=one.distribution)
        try:
            # What is entered lies in no slot: it is entered as selected, whatever else is entered there.
            chain = [*chain, layer] if one.patch.target is None else ordered([*chain, layer], address)
            at[layer] = number
        except (ConflictError, OrderError) as error:
            is_skipped = isinstance(error, ApplyError) and not one.patch.required
            reason = error.problem if isinstance(error, ApplyError) else str(error)
            looks[number] = replace(looks[number], finding="skipped" if is_skipped else "conflict", reason=reason)
    for place, layer in enumerate(chain, 1):
        looks[at[layer]] = replace(looks[at[layer]], place=place)
    return looks


def _patch(asked: Asked, look: _Look) -> PlannedPatch:
    patch = asked.patch
    return PlannedPatch(
        plugin=asked.plugin,
        distribution=asked.distribution,
        verb=patch.verb,
        reach=patch.reach,
        required=patch.required,
        why=patch.why,
        upstream=patch.upstream,
        **asdict(look),
    )
