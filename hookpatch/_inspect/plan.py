"""Plan a session: each target, the order of the patches on the target, and whether the patches fit.

A child process opens the session and imports the targets; this process imports no target and changes nothing.

Long because the public values of a plan lie beside the code that makes the values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, final

from hookpatch._bootstrap import selection
from hookpatch._bootstrap.installed import Installed, installed
from hookpatch._bootstrap.selection import normalise
from hookpatch._engine.lock.lockfile import key_of
from hookpatch._engine.patch.describe import a_kind
from hookpatch._engine.patch.module_lookup import Presence, presence_of
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.versions import release_of
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.layers.order import ordered
from hookpatch._inspect.cache import LookOptions
from hookpatch._inspect.rehearsal import SEVERITY, Outcome, State, with_matches
from hookpatch._inspect.throwaway import outcomes_of
from hookpatch._inspect.together import outcomes_here
from hookpatch._plugins.relations import check
from hookpatch._processes.active import lock_of
from hookpatch._session.additions import additions
from hookpatch._session.ledger import Requested
from hookpatch._session.load import load, load_drift, relations_of_plugins, selection_for
from hookpatch.errors import ApplyError, ConflictError, OrderError, SettingError

if TYPE_CHECKING:
    from hookpatch._bootstrap.selection import OnDrift

Finding: TypeAlias = Literal["fits", "absent", "not looked at", "skipped", "unfit", "conflict"]
Item: TypeAlias = tuple[str | Patch, Sequence[Requested]]  # a plugin with all its patches, or a patch


@final
@dataclass(frozen=True, slots=True)
class PlannedPatch:
    """The plan for one patch. Frozen.

    Attributes:
        place: the position among the patches on the target, 1 is the outermost; None if not applied.
        plugin: the plugin's name, None for a patch given to ``plan``.
        distribution: the plugin's distribution with its version; None without a plugin.
        verb, reach, required: as declared by the patch.
        finding: what becomes of the patch: *fits*; *absent*: the module is not installed, the patch would wait for its
            import; *not looked at*: the module was not imported, and ``reason`` says why; *skipped*: an optional patch
            does not fit; *unfit*: a required patch does not fit; *conflict*: the patch excludes a patch selected
            before, or no order satisfies all patches.
        reason: the reason for a finding other than *fits*, else None.
        warnings: as in the report of a run: the patch is no longer needed, or the target differs from the lock file.
        why, upstream, callers: as declared by the patch.
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
    callers: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """One target and the patches on it. Frozen.

    Two addresses of the same object give two targets here: hookpatch compares objects only after their import.

    Attributes:
        target: the address, as written in the patches; for ``enter`` the module.
        module: the module that contains the target, None for objects without an address.
        distribution: the distribution that contains the module, None without a distribution.
        version: the installed version of the distribution; None without a distribution.
        installed: True if the module can be found; None if hookpatch would have to import a parent to know.
        imported: True if this process has imported the module: the patches would be applied at once.
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
            reach += f", in calls from {', '.join(patch.callers)}" if patch.callers else ""
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
            state = "imported already" if self.module is not None else "an object without an address"
        return f"{release}, {state}" if release else state


OF_OBJECT: Final = Presence(installed=True, imported=True)
_FINDINGS: Final[Mapping[State, Finding]] = {
    "applied": "fits",
    "skipped": "skipped",
    "failed": "unfit",
    "waiting": "not looked at",
}
_PLACED: Final = ("fits", "absent", "not looked at")
BY_HAND: Final = "given by hand"
WORDS: Final[Mapping[Finding, str]] = {
    "fits": "fits",
    "absent": "would wait",
    "not looked at": "not looked at",
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


def plan(
    *what: str | Patch,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    lock: str | os.PathLike[str] | None = None,
    on_drift: OnDrift | None = None,
    imports: bool = True,
) -> Plan:
    """Return a plan of the patches that ``active`` with the same arguments would apply here.

    A throwaway child process opens the session and imports the targets. This process imports the plugins but no
    target, and changes nothing; a target is looked at here if this process has imported the module already. The result
    is kept until a file changes. ``hookpatch plan`` prints the result.

    Args:
        *what: names of installed plugins and patches.
        options: options by plugin name.
        lock, on_drift: as for ``active``.
        imports: False to start no child process: targets that are not imported here are *not looked at*.

    Raises:
        SettingError: an argument is neither a plugin's name nor a patch, or the lock file cannot be read.
        SelectionError: no plugin has the name; no option has the name; a plugin needs another plugin that is not
            selected, or conflicts with a selected plugin.
        PluginError: a plugin cannot be loaded.
    """
    for item in what:
        if not isinstance(item, (str, Patch)):
            raise SettingError("plan()", f"takes plugin names and patches, not {a_kind(item)}")
    names = [item for item in what if isinstance(item, str)]
    selected = selection_for(names, options, "plan()")
    host, by_name = load(selected)
    if host is not None:
        check(host.relations, selected.asked_by, relations_of_plugins())
    locked = lock_of(lock, on_drift, "plan")
    items: list[tuple[str | Patch, list[Requested]]] = []
    for item in what:
        if isinstance(item, Patch):
            items += [(named, [Requested(named)]) for named in item.written_out()]
        elif (requests := by_name.pop(normalise(item), None)) is not None:
            items.append((item, requests))
    return plan_of(items, selected.options, locked, LookOptions(imports), looks_here=True)


def plan_of(
    items: Sequence[Item],
    options: Mapping[str, Mapping[str, Any]],
    lock: tuple[str, OnDrift] | None,
    look: LookOptions,
    looks_here: bool = False,
) -> Plan:
    """Return the plan of a selection: of plugins, each with its patches, and of patches.

    ``looks_here``: this process looks at the targets that it has imported; else a child process looks at all targets.
    """
    requests = [request for _, requests in items for request in requests]
    modules = {request.patch.module for request in requests}
    presences = {None: OF_OBJECT} | {name: OF_OBJECT if name is None else presence_of(name) for name in modules}
    is_here = [looks_here and presences[request.patch.module].imported for request in requests]
    outcomes = outcomes_here(requests, is_here, load_drift(lock) if looks_here else None)
    added_by = additions([request.patch for request in requests])
    to_look = [
        index
        for index, request in enumerate(requests)
        if outcomes[index].state == "waiting" and presences[request.patch.module].installed is not False
    ]
    if to_look:
        imported = {request.patch.module for request, here in zip(requests, is_here, strict=True) if here}
        by_item = outcomes_of(items, options, lock, look, [name for name in imported if name is not None])
        looked = [outcome for of_item in by_item for outcome in of_item]
        for index in to_look:
            adder = looked[added_by.get(index, index)]
            if looked[index].error == "TargetNotFound" and adder.state == "waiting":
                looked[index] = Outcome("waiting", f"the patch that may add the name was not looked at: {adder.reason}")
            outcomes[index] = looked[index]._replace(warnings=looked[index].warnings or outcomes[index].warnings)
    groups: dict[str | tuple[int, str], list[_Tried]] = {}
    for request, outcome in with_matches(requests, outcomes):
        patch = request.patch
        if patch.module not in presences:  # the module of a match
            presences[patch.module] = presence_of(str(patch.module))
        key = key_of(patch) or (id(patch.target and patch.target.start), patch.address)  # objects may share a text
        groups.setdefault(key, []).append(_Tried(request, outcome, presences[patch.module]))
    idle = [item for item, requests in items if isinstance(item, str) and not requests]
    return Plan(tuple(map(_target, groups.values())), tuple(idle))


def plan_alone(
    plugin: Installed, patches: Iterable[Patch], options: Mapping[str, Mapping[str, Any]], look: LookOptions
) -> Plan:
    """Return the plan of the patches of one plugin, as ``hookpatch plan`` with its name alone has it."""
    names = [normalise(candidate.name) for candidate in installed()]
    is_alone = names.count(normalise(plugin.name)) == 1
    name = plugin.name if is_alone else f"{plugin.name}@{plugin.distribution}"
    requests = [Requested(patch, plugin.name, plugin.origin) for patch in patches]
    return plan_of([(name, requests)], options, selection.lock(), look)


class _Tried(NamedTuple):
    request: Requested
    outcome: Outcome
    presence: Presence


def _target(tried: Sequence[_Tried]) -> PlannedTarget:
    patch, presence = tried[0].request.patch, tried[0].presence
    distribution, version = release_of(patch.module or patch.address.partition(":")[0])
    patches = _in_order(patch.address, tried, [*map(_planned, tried)])
    return PlannedTarget(
        target=patch.address,
        module=patch.module,
        distribution=distribution or None,
        version=version or None,
        installed=presence.installed,
        imported=presence.imported,
        patches=tuple(sorted(patches, key=lambda patch: (patch.place is None, patch.place))),
    )


def _planned(tried: _Tried) -> PlannedPatch:
    """Return the plan of one patch without its place."""
    requested, outcome, presence = tried
    patch, finding, reason = requested.patch, _FINDINGS[outcome.state], outcome.reason
    if presence.installed is False:
        finding, reason = "absent", "; ".join(filter(None, (presence.missing, reason)))
    elif outcome.error == "ModuleNotFoundError":
        finding = "absent"
    elif finding == "unfit" and outcome.error in ("ConflictError", "OrderError"):
        finding = "conflict"
    return PlannedPatch(
        place=None,
        plugin=requested.plugin,
        distribution=requested.distribution,
        verb=patch.verb,
        reach=patch.reach,
        required=patch.required,
        finding=finding,
        reason=reason,
        warnings=outcome.warnings,
        why=patch.why,
        upstream=patch.upstream,
        callers=patch.callers,
    )


def _in_order(address: str, tried: Sequence[_Tried], patches: list[PlannedPatch]) -> list[PlannedPatch]:
    """Return the patches with their places: as a session has put them, the others in the order of selection."""
    depths = {index: row.outcome.depth for index, row in enumerate(tried) if patches[index].finding in _PLACED}
    if all(depth is not None for depth in depths.values()):
        for place, index in enumerate(sorted(depths, key=lambda index: depths[index] or ()), 1):
            patches[index] = replace(patches[index], place=place)
        return patches
    in_slot: list[Layer] = []
    in_place: list[Layer] = []
    index_of: dict[Layer, int] = {}
    for index, depth in depths.items():
        request = tried[index].request
        has_slot = request.patch.target is not None and (depth or patches[index].finding != "fits")
        layer = Layer(request.patch, request.plugin, request.owner, (1, -index), distribution=request.distribution)
        chain = in_place if depth and depth[0] else in_slot
        index_of[layer] = index
        try:
            # A context manager, values in instances and the parts of a class have no common slot with the others.
            chain[:] = ordered([*chain, layer], address) if has_slot else [*chain, layer]
        except (ConflictError, OrderError) as error:
            is_skipped = isinstance(error, ApplyError) and not request.patch.required
            reason = error.problem if isinstance(error, ApplyError) else str(error)
            patches[index] = replace(patches[index], finding="skipped" if is_skipped else "conflict", reason=reason)
    for place, layer in enumerate([*in_slot, *in_place], 1):
        patches[index_of[layer]] = replace(patches[index_of[layer]], place=place)
    return patches
