"""Find the patched slots of a process: compare a snapshot with the present, and leave out all other changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN, describe
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.item import ItemSlot
from hookpatch._engine.slots.slot import ABSENT, Slot
from hookpatch._engine.source.location import in_words
from hookpatch._inspect.audit.finding import AuditFinding
from hookpatch._inspect.audit.hooks import hooks
from hookpatch._inspect.audit.kinds import DEFINED, OF_PYTHON, is_code, is_movable, is_object, name_of
from hookpatch._inspect.audit.origin import (
    PYTHON,
    Origin,
    decorated,
    distribution_of,
    is_completion,
    is_foreign,
    of_module,
    of_place,
    origin_of,
    version_of,
)
from hookpatch._inspect.audit.own_stores import OwnStores
from hookpatch._inspect.audit.probable import AuthorByTime, author_of_removal
from hookpatch._inspect.audit.snapshot import (
    Change,
    EntryChange,
    Snapshot,
    Unknown,
    code_of,
    function_in,
    in_address,
    module_of_class,
    names_holding,
    names_of_module,
    submodule_noted,
)
from hookpatch._inspect.slot.foreign import layers_over

_OF_PROTOCOLS: Final = "_no_init_or_replace_init"  # typing exchanges this method at the first call


@final
class Comparison:
    """A comparison of a snapshot with the present. Lives as long as one audit.

    Args:
        snapshot: the former values of modules and classes.
        when: by id of the owner and name, the imports between which a change was first seen.
        everything: True to report added names and plain values, too.
    """

    def __init__(self, snapshot: Snapshot, when: dict[tuple[int, str], str], everything: bool = False) -> None:
        self._snapshot: Final = snapshot
        self._when: Final = when
        self._everything: Final = everything
        self._sites: Final = our_sites()
        self._stores: Final = OwnStores(snapshot, self._home)
        self._layers: Final = {site.slot.key: site.layers for site in self._sites}

    def findings(self) -> list[AuditFinding]:
        """Return the patches, by address."""
        entries = [*self.entries()] if self._everything else []  # first: a look at sources fills dictionaries
        changed = [(change, kind) for change, kind, _ in self.patches()]
        originals = {id(change.before): change.before for change, _ in changed if is_code(change.before)}
        stale = names_holding(originals)
        findings, homes = {}, {}
        for change, kind in changed:
            target = self.address(change.owner, change.name)
            homes[target] = ABSENT if self._everything else self._home(change.owner).distribution or ABSENT
            findings[target, kind] = self._finding(change, kind, target, stale.get(id(change.before), []))
        for finding in [*self._swapped(), *self._exchanged_modules(), *map(self._of_entry, entries), *hooks()]:
            findings.setdefault((finding.target, finding.kind), finding)
        completed = map(AuthorByTime(findings.values()).completed, findings.values())
        foreign = (
            found
            for found in completed
            if not (found.probable and found.distribution == homes.get(found.target, ABSENT))
        )
        return sorted(foreign, key=lambda finding: finding.target)

    def patches(self) -> list[tuple[Change, str, str]]:
        """Return each changed slot with the kind and the address."""
        changes = {(id(change.owner), change.name): change for change in [*self._patched_slots(), *self._living()]}
        changes = {key: submodule_noted(change) for key, change in changes.items()}
        return [
            (change, kind, self.address(change.owner, change.name))
            for change in changes.values()
            if (kind := self._kind(change)) is not None
        ]

    def _patched_slots(self) -> Iterator[Change]:
        """Yield the slots patched by hookpatch: a patch may be applied before the recorder notes the module."""
        for site in self._sites:
            if type(site.slot) is AttributeSlot:
                yield Change(site.slot.owner, site.slot.name, site.original, site.slot.read())

    def _living(self) -> Iterator[Change]:
        """Yield the changes of all classes, and of all modules still imported."""
        owners = self._snapshot.owners()
        present = {id(module) for _, module in imports.modules()}
        living = (note for note in owners if id(note.owner) in present or issubclass(type(note.owner), type))
        return self._snapshot.changes(living)

    def _kind(self, change: Change) -> str | None:
        """Return the kind of a patch, None for a change that is no patch."""
        owner, name, before, after = change
        if name in OF_PYTHON:
            return None
        is_class = issubclass(type(owner), type)
        if self._is_patch_of_hookpatch(change):
            return "removed" if after is ABSENT else "added" if before is ABSENT else "replaced"
        if before is ABSENT:
            return self._kind_of_added(owner, name, after, is_class)
        if after is ABSENT:
            is_code_gone = issubclass(type(before), DEFINED) and not self._stores.removes(
                owner, name, self._module_of(owner)
            )
            return "removed" if is_code_gone or self._everything else None
        if self._is_of_itself(owner, before, after) or self._stores.is_import_at_last(owner, name, before, after):
            return None
        if type(before) is Unknown:
            return "replaced"
        if is_code(before):
            return None if name_of(before) == _OF_PROTOCOLS else "replaced"
        if before is None and not self._everything:  # mostly a value that the module makes at the first use
            return "replaced" if self._stores.is_from_outside(owner, name, after) else None
        if issubclass(type(before), ModuleType) or self._everything:
            return "replaced"
        if type(after) is not type(before) and is_object(before) and is_object(after):
            return None if is_completion(self._home(owner), before, after) else "replaced"  # a lock of another kind
        home, origin = self._home(owner), origin_of(after, before)
        if origin.is_known:
            return "replaced" if origin.distribution not in (home.distribution, PYTHON) else None
        return "replaced" if name.isupper() and not name.startswith("_") else None

    def _kind_of_added(self, owner: Any, name: str, after: Any, is_class: bool) -> str | None:
        hidden = self._snapshot.hidden_by(owner, name) if is_class and is_code(after) else None
        if hidden is not None and not self._is_mark(*hidden, after):
            return None if self._is_of_itself(owner, ABSENT, after) else "overridden"
        is_builtin = issubclass(type(owner), ModuleType) and names_of_module(owner).get("__name__") == "builtins"
        return "added" if self._everything or (is_builtin and name != "_") else None

    def _is_mark(self, base: type, hidden: Any, after: Any) -> bool:
        """Return True if a foreign author marks both classes, as zope.interface does with ``__implemented__``."""
        origin = origin_of(hidden)
        return is_foreign(origin, self._home(base)) and origin.distribution == origin_of(after).distribution

    def _is_of_itself(self, owner: Any, before: Any, after: Any) -> bool:
        """Return True for a change by the distribution of the changed module or class."""
        home, origin = self._home(owner), self._origin(owner, before, after)
        if home.distribution == origin.distribution == PYTHON:
            return not (is_movable(before) and is_movable(after))
        if home.distribution is None:  # the program's own files: the file decides
            return origin.distribution is None and origin.file == home.file
        return home.distribution == origin.distribution

    def _origin(self, owner: Any, before: Any, after: Any) -> Origin:
        """Return where a value was defined; a foreign function in a decorator of the owner is the value."""
        if (by_code := self._author_of_code(after)) is not None:
            return by_code
        home, origin, inside = self._home(owner), origin_of(after, before), decorated(after)
        is_inside = origin.distribution == home.distribution and inside is not before
        return origin_of(inside) if is_inside and is_foreign(origin_of(inside), home) else origin

    def _author_of_code(self, value: Any) -> Origin | None:
        """Return the origin of the statement that set the code of a function, if the code is in no file; else None."""
        function = function_in(value)
        if function is None or code_of(function).co_filename[:1] != "<":
            return None
        place = self._snapshot.place_of_code(function)
        return None if place is None else of_place(place)

    def _is_patch_of_hookpatch(self, change: Change) -> bool:
        return AttributeSlot(change.owner, change.name).key in self._layers

    def _finding(self, change: Change, kind: str, target: str, stale: list[tuple[int, str, str]]) -> AuditFinding:
        owner, name, before, after = change
        is_ours, is_removed = self._is_patch_of_hookpatch(change), after is ABSENT
        origin = author_of_removal(owner, name, self._home) if is_removed else self._origin(owner, before, after)
        if not origin.is_known and not is_removed:
            origin = Origin(self._home(owner).distribution) if self._everything else origin
        key = id(owner), name
        layers, undo = layers_over(before, after, AttributeSlot(owner, name))
        return AuditFinding(
            target,
            kind,
            None if before is ABSENT else "not known" if type(before) is Unknown else in_words(before),
            None if after is ABSENT else in_words(after),
            **self._author_fields(AttributeSlot(owner, name), origin),
            probable=is_removed and origin.is_known and not is_ours,
            when=self._when.get(key),
            layers=layers,
            stale=tuple(words for of, holds, words in stale if (of, holds) != key),
            undo="session" if is_ours else undo,
        )

    def _author_fields(self, slot: Slot | None, origin: Origin) -> dict[str, Any]:
        """Return author and place of the present value."""
        layers = self._layers.get(slot.key) if slot is not None else None
        if layers:
            plugin = layers[0].plugin or "active()"
            home = (layers[0].distribution or "").split(" ")
            return {
                "plugin": plugin,
                "distribution": home[0] or None,
                "version": home[1] if len(home) > 1 else None,
                "place": None,
            }
        return {"distribution": origin.distribution, "version": version_of(origin.distribution), "place": origin.place}

    def _module_of(self, owner: Any) -> str:
        """Return the name of the module of a class; for a module the module's own name."""
        if issubclass(type(owner), ModuleType):
            return str(names_of_module(owner).get("__name__"))
        return module_of_class(owner) or self._snapshot.homes.get(id(owner), "")

    def _home(self, owner: Any) -> Origin:
        """Return the origin of a module or class."""
        return of_module(self._module_of(owner), owner if issubclass(type(owner), ModuleType) else None)

    def address(self, owner: Any, name: str) -> str:
        """Return the address of a slot: of a class by the class's module, of a module by the module's name."""
        home = self._module_of(owner)
        is_module = issubclass(type(owner), ModuleType)
        return f"{home}:{name}" if is_module else f"{home}:{describe(owner).rpartition(':')[2]}.{name}"

    def _swapped(self) -> Iterator[AuditFinding]:
        """Yield the functions with other code: changed in place by hookpatch, or by foreign code."""
        ours = [site for site in self._sites if type(site.slot) is FunctionSlot]
        for site in ours:
            yield self._of_code(site.slot.owner, None, self._address_of(site.slot.owner), site.slot)
        for function, code, owner, name, place in self._snapshot.swapped():
            if all(site.slot.owner is not function for site in ours):
                slot = FunctionSlot(function, binds=False)
                yield self._of_code(function, code, self.address(owner, name), slot, place)

    def _of_code(
        self, function: FunctionType, code: CodeType | None, target: str, slot: Slot, place: str | None = None
    ) -> AuditFinding:
        return AuditFinding(
            target,
            "code",
            None if code is None else f"code at {code.co_filename}:{code.co_firstlineno}",
            f"code at {function.__code__.co_filename}:{function.__code__.co_firstlineno}",
            **self._author_fields(slot, self._author_of_code(function) or origin_of(function.__code__)),
            assigned_at=place,
            layers=1,
            undo=None if code is not None else "session",
        )

    def _address_of(self, function: FunctionType) -> str:
        noted = self._snapshot.address_of(function)
        return self.address(*noted) if noted is not None else describe(function)

    def _exchanged_modules(self) -> Iterator[AuditFinding]:
        """Yield the entries of sys.modules that hold another module than the executed module."""
        for note in [*self._snapshot.modules.values()]:
            name = note.before.get("__name__")
            module = imports.module_named(name) if type(name) is str else None
            noted = None if module is None else self._snapshot.modules.get(id(module))
            if module is None or (noted is not None and noted.before.get("__name__") == name):
                continue  # a module of this name, perhaps executed again
            origin = of_module(name, module) if issubclass(type(module), ModuleType) else origin_of(module)
            own = note.before.get("__file__")
            home = distribution_of(own) if type(own) is str else PYTHON
            if home != origin.distribution or not origin.is_known:
                author: dict[str, Any] = {
                    "distribution": origin.distribution,
                    "version": version_of(origin.distribution),
                }
                words = in_words(note.owner), in_words(module)
                yield AuditFinding(f"sys.modules[{name!r}]", "module", *words, **author, place=origin.file)

    def entries(self) -> Iterator[tuple[EntryChange, str]]:
        """Yield the changed entries of the dictionaries that modules and classes hold, and their addresses."""
        for change in self._snapshot.entries():
            yield change, f"{self.address(change.owner, change.name)}[{in_address(change.key)}]"

    def _of_entry(self, found: tuple[EntryChange, str]) -> AuditFinding:
        (_, _, mapping, key, before, now), target = found
        old, new = (None if value is ABSENT else in_words(value) for value in (before, now))
        origin = origin_of(now, before) if now is not ABSENT else Origin()
        slot = ItemSlot(mapping, key) if type(key) in PLAIN else None  # any other key would be hashed
        return AuditFinding(target, "entry", old, new, **self._author_fields(slot, origin))


def our_sites() -> Sequence[Any]:
    """Return the sites of hookpatch with layers; imports no part of the engine."""
    sites: Any = imports.loaded("hookpatch._engine.site.sites")
    return [] if sites is None else sites.patched()
