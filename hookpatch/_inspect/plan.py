"""Plan a session: each target, the order of the patches on the target, and whether the patches fit.

A plan imports no target and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias, final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.selection import normalise
from hookpatch._engine.lock.lockfile import key_of
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.module_lookup import Presence, presence_of
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.versions import release_of
from hookpatch._engine.site.layer import Layer
from hookpatch._engine.site.order import ordered
from hookpatch._inspect.dry_run import SEVERITY, by_target, by_version
from hookpatch._plugins.relations import check
from hookpatch._session.ledger import Requested
from hookpatch._session.load import asked_for, load, relations_here
from hookpatch.errors import ApplyError, ConflictError, OrderError, SettingError

Finding: TypeAlias = Literal["fits", "absent", "skipped", "unfit", "conflict"]


@final
@dataclass(frozen=True, slots=True)
class PlannedPatch:
    """The plan for one patch. Frozen.

    Attributes:
        place: the position among the patches on the target, 1 is the outermost; None if not applied.
        plugin: the plugin's name, None for a patch given to ``plan``.
        distribution: the plugin's distribution with its version, None likewise.
        verb, reach, required: as declared by the patch.
        finding: the guards' answer: *fits*; *absent*: the module is not installed, the patch would wait for its import;
            *skipped*: an optional patch does not fit; *unfit*: a required patch does not fit; *conflict*: the patch
            excludes a patch selected before, or no order satisfies all patches.
        reason: the reason for a finding other than *fits*, else None.
        warnings: that the patch is no longer needed, or that a check was not possible.
        why, upstream: as declared by the patch.
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

    Two addresses of the same object give two targets here: hookpatch compares objects only after their import.

    Attributes:
        target: the address, as written in the patches; for ``enter`` the module.
        module: the module that contains the target, None for objects at hand.
        distribution: the distribution that contains the module, None if no distribution does.
        version: the installed version of the distribution, None likewise.
        installed: True if the module can be found; None if hookpatch would have to import a parent to know.
        imported: True if the module is imported already: the target was checked, and would be patched at once.
        patches: the patches, the outermost first, then the patches that would not be applied.
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
            lines += [f"     warning: {warning}" for warning in patch.warnings]
        return "\n".join(lines)

    @property
    def in_words(self) -> str:
        """Return the module's release and whether the module is imported."""
        release = " ".join(filter(None, (self.distribution, self.version)))
        state = "not found" if self.installed is False else "not imported yet"
        if self.imported:
            state = "imported already" if self.module is not None else "an object at hand"
        return f"{release}, {state}" if release else state


BY_HAND: Final = "given by hand"
WORDS: Final[Mapping[Finding, str]] = {
    "fits": "fits",
    "absent": "would wait",
    "skipped": "does not fit, would be skipped",
    "unfit": "does not fit",
    "conflict": "conflicts",
}


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of all patches. Frozen; iterating gives the targets, ``str()`` a block of lines for each target.

    Attributes:
        targets: the targets, in the order of selection.
        idle: the plugins that would patch nothing, by the names given.
    """

    targets: tuple[PlannedTarget, ...]
    idle: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """Return 0 if all patches fit, 1 if a person should look at a patch, 2 if a patch does not fit."""
        return max((SEVERITY[patch.finding] for target in self.targets for patch in target.patches), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes and ``status`` by name, as in the JSON schema."""
        return {"status": self.status, **asdict(self)}

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON."""
        from hookpatch._bootstrap.json import written  # needed for JSON only

        return written(self.to_dict(), indent=2)

    def __iter__(self) -> Iterator[PlannedTarget]:
        return iter(self.targets)

    def __str__(self) -> str:
        lines = [*map(str, self.targets), *(f"{plugin} patches nothing" for plugin in self.idle)]
        return "\n".join(lines) or "no patches"


def plan(*what: str | Patch, options: Mapping[str, Mapping[str, Any]] | None = None) -> Plan:
    """Return a plan of the patches that ``active`` with the same arguments would apply here.

    Imports the plugins but no target, and changes nothing. Compares versions; of an imported module also checks the
    target. ``hookpatch plan`` prints the result.

    Args:
        *what: names of installed plugins and patches.
        options: options by plugin name.

    Raises:
        SettingError: an argument is neither a plugin's name nor a patch.
        SelectionError: no plugin has the name; no option has the name; a plugin needs another plugin that is not
            selected, or conflicts with a selected plugin.
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
    requests: list[Requested] = []
    for item in what:
        requests += [Requested(item)] if isinstance(item, Patch) else by_name.pop(normalise(item), [])
    return plan_of(requests, idle)


def plan_of(requests: Iterable[Requested], idle: Iterable[str] = ()) -> Plan:
    """Return the plan of requested patches in their order; ``idle``: the plugins without a patch."""
    groups: dict[str | tuple[int, str], list[Requested]] = {}
    for request in requests:
        patch = request.patch
        key = key_of(patch) or (id(patch.target and patch.target.start), patch.address)  # objects may share a text
        groups.setdefault(key, []).append(request)
    return Plan(tuple(map(_target, groups.values())), tuple(idle))


def _target(requests: Sequence[Requested]) -> PlannedTarget:
    address, module = requests[0].patch.address, requests[0].patch.module
    presence = Presence(installed=True, imported=True) if module is None else presence_of(module)
    distribution, version = release_of(module or address.partition(":")[0])
    patches = _in_order(address, requests, [_planned(request, presence) for request in requests])
    return PlannedTarget(
        target=address,
        module=module,
        distribution=distribution or None,
        version=version or None,
        installed=presence.installed,
        imported=presence.imported,
        patches=tuple(sorted(patches, key=lambda patch: (patch.place is None, patch.place))),
    )


def _planned(requested: Requested, presence: Presence) -> PlannedPatch:
    """Return the plan of one patch without regard to other patches."""
    patch = requested.patch
    module = None if patch.module is None else imports.loaded(patch.module)
    is_imported = module is not None or patch.module is None
    verdict = by_target(requested, module)[0] if is_imported else by_version(requested)
    finding: Finding = "fits" if verdict.fits else "unfit" if patch.required else "skipped"
    reason = verdict.problem
    if presence.installed is False:
        finding, reason = "absent", "; ".join(filter(None, (presence.missing, verdict.problem)))
    return PlannedPatch(
        place=None,
        plugin=requested.plugin,
        distribution=requested.distribution,
        verb=patch.verb,
        reach=patch.reach,
        required=patch.required,
        finding=finding,
        reason=reason,
        warnings=verdict.warnings,
        why=patch.why,
        upstream=patch.upstream,
    )


def _in_order(address: str, requests: Sequence[Requested], patches: list[PlannedPatch]) -> list[PlannedPatch]:
    """Return the patches with their places: added in the order of selection, as a session adds layers."""
    chain: list[Layer] = []
    index_of: dict[Layer, int] = {}
    for index, request in enumerate(requests):
        if patches[index].finding not in ("fits", "absent"):
            continue
        layer = Layer(request.patch, request.plugin, request.owner, (1, -index), distribution=request.distribution)
        try:
            # The verb enter has no slot: context managers are entered in the order of selection.
            chain = [*chain, layer] if request.patch.target is None else ordered([*chain, layer], address)
            index_of[layer] = index
        except (ConflictError, OrderError) as error:
            is_skipped = isinstance(error, ApplyError) and not request.patch.required
            reason = error.problem if isinstance(error, ApplyError) else str(error)
            patches[index] = replace(patches[index], finding="skipped" if is_skipped else "conflict", reason=reason)
    for place, layer in enumerate(chain, 1):
        patches[index_of[layer]] = replace(patches[index_of[layer]], place=place)
    return patches
