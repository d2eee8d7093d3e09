"""Separate the changes made by an apply function from the changes made by other code during its run."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.slot import ABSENT, attributes_of
from hookpatch._inspect.adopt.authors import Authors
from hookpatch._inspect.adopt.objects import Objects, modules_by_hand
from hookpatch._inspect.audit.compare import Comparison
from hookpatch._inspect.audit.kinds import DEFINED, is_code
from hookpatch._inspect.audit.origin import PYTHON, Origin, of_module, origin_of
from hookpatch._inspect.audit.recorder import Recorder
from hookpatch._inspect.audit.snapshot import Change, names_of_module


@final
class Changes:
    """The changes since a moment, by address.

    Args:
        home: the module of the apply function.
    """

    def __init__(self, home: str) -> None:
        self._home: Final = home
        recorder = Recorder(with_entries=True)
        recorder.begin()
        self._snapshot: Final = recorder.snapshot
        self._objects: Final = Objects()
        self._modules: Final = dict(imports.modules())
        self._known_authors: Final[dict[int, Authors]] = {}  # by the number of modules

    def of_apply(self) -> dict[str, Change]:
        """Return the changed slots due to the apply function: patches, and names added to foreign modules and classes.

        A name that a package loads from a submodule is no change of the apply function.
        """
        patches, authors = self._patches(), self._authors
        changes = {
            target: change
            for target, (change, kind) in self._all_patches().items()
            if _package_of(target) != _package_of(self._home) and self._is_by_apply(target, change, kind, patches)
        }
        changes |= self._in_package()
        for target, change in self._objects.changes():
            origin = origin_of(change.now, change.before) if change.now is not ABSENT else Origin()
            is_own = (origin.distribution or origin.file) not in (None, PYTHON) and authors.patch_with(origin)
            if (is_own or change.name in authors.stored) and _package_of(target) != _package_of(self._home):
                changes[target] = change
        return changes

    @property
    def _authors(self) -> Authors:
        loaded = imports.count()
        if loaded not in self._known_authors:  # the authors' modules grow
            files = (names_of_module(module).get("__file__") for module in self._modules.values())
            self._known_authors[loaded] = Authors(self._home, frozenset(file for file in files if type(file) is str))
        return self._known_authors[loaded]

    def _is_by_apply(self, target: str, change: Change, kind: str, patches: Container[str]) -> bool:
        authors = self._authors
        origin = origin_of(change.now, change.before) if change.now is not ABSENT else Origin()
        home = of_module(target.partition(":")[0]).distribution
        is_mentioned = authors.mention(change.name, home)
        if target in patches and kind == "replaced":
            return authors.patch_with(origin) and (origin.is_known or change.now is ABSENT or is_mentioned)
        if kind == "added" and self._holds_code_of_author(change.now, home):
            return True
        if origin.distribution not in (None, PYTHON, *authors.distributions):
            return False  # such as the marks of zope.interface in each class
        if target in patches:
            return True
        if kind == "added" and not _is_of_submodule(change) and not _is_of_itself(target, change):
            is_own = (origin.distribution or origin.file) not in (None, PYTHON)
            return is_own or (is_mentioned and not _is_lazy(change.owner))
        return change.name in authors.stored and type(change.now) in PLAIN

    def _holds_code_of_author(self, value: Any, home: str | None) -> bool:
        """Return True for an object that holds an author's code, as an accessor does that pandas puts into a class."""
        held = None if issubclass(type(value), DEFINED) else attributes_of(value)
        origins = [origin_of(part) for part in held.values() if is_code(part)] if type(held) is dict else []
        own = (None, PYTHON, home)
        return any((of.distribution or of.file) not in own and self._authors.patch_with(of) for of in origins)

    def _in_package(self) -> dict[str, Change]:
        """Return the names of other modules of the function's package that the function's module sets."""
        comparison, stored, changes = Comparison(self._snapshot, {}), self._authors.stored, {}
        for change in self._snapshot.changes(self._snapshot.owners()):
            is_plain = type(change.before) in PLAIN and type(change.now) in PLAIN
            if change.name in stored and (is_plain or (is_code(change.before) and is_code(change.now))):
                target = comparison.address(change.owner, change.name)
                module = target.partition(":")[0]
                if module != self._home and module in self._modules and _package_of(target) == _package_of(self._home):
                    changes[target] = change
        return changes

    def of_entries(self) -> dict[str, Change]:
        """Return the changed entries of foreign dictionaries due to the apply function.

        The owner of such a change is the dictionary, the name is the key. The values are functions and classes, or
        plain values of keys that the function's module sets. Anything else is left out, as a cache is.
        """
        entries: dict[str, Change] = {}
        authors, stored = self._authors, self._authors.stored
        for (_, _, mapping, key, before, now), target in Comparison(self._snapshot, {}).entries():
            is_exchanged = is_code(before) and (now is ABSENT or is_code(now))
            is_ours = issubclass(type(key), type) and str(key.__module__).startswith("hookpatch")
            is_foreign = _package_of(target) != _package_of(self._home) and not is_ours
            is_foreign = is_foreign and not _is_of_itself(target, Change(mapping, key, before, now))
            if is_foreign and type(key) is str and key in stored and type(now) in PLAIN:
                entries[target] = Change(mapping, key, before, now)
            elif is_foreign and (is_exchanged or is_code(now)):
                origin = origin_of(now, before) if now is not ABSENT else Origin()
                is_own = (origin.distribution or origin.file) not in (None, PYTHON)
                is_own = is_own and origin.distribution in authors.distributions
                if is_own or (is_exchanged and origin.distribution in (None, PYTHON)):
                    entries[target] = Change(mapping, key, before, now)
        return entries

    def patches_of_others(self) -> dict[str, str]:
        """Return the patched slots due to other distributions, such as distributions imported meanwhile: the author."""
        own = self.of_apply()
        return {
            target: str(_author_of(change))
            for target, change in self._patches().items()
            if target not in own and _package_of(target) != _package_of(self._home)
        }

    def of_no_name(self) -> dict[str, Change]:
        """Return the changes of slots that are no names: code, classes of modules, imported modules."""
        changes = {f"{target}.__code__": change for target, change in self._codes().items()}
        held = names_of_module(imports.loaded("sys"))["modules"]
        for name, module in imports.modules():
            before = self._modules.get(name)
            known = self._objects.class_of(module)
            if known is not None and type(module) is not known:
                changes[f"{name}:__class__"] = Change(module, "__class__", known, type(module))
            if before is not None and before is not module:
                changes[f"sys:modules[{name!r}]"] = Change(held, name, before, module)
        for name in modules_by_hand(self._modules):
            if _package_of(name) != _package_of(self._home) and self._authors.mention(name, None):
                changes[f"sys:modules[{name!r}]"] = Change(held, name, ABSENT, held[name])
        return changes

    def _codes(self) -> dict[str, Change]:
        """Return each function with other code, by the function's address."""
        comparison = Comparison(self._snapshot, {})
        return {
            comparison.address(owner, name): Change(function, "__code__", code, function.__code__)
            for function, code, owner, name, _ in self._snapshot.swapped()
        }

    def addresses(self) -> set[str]:
        """Return the addresses of all changes, made by the function or by other code."""
        objects = {target for target, _ in self._objects.changes()}
        return {*self._all_patches(), *self.of_no_name(), *self.of_entries(), *objects}

    def written_names(self) -> set[str]:
        """Return the addresses of all names with another value, in the function's own package, too."""
        comparison = Comparison(self._snapshot, {})
        changes = self._snapshot.changes(self._snapshot.owners())
        return {comparison.address(change.owner, change.name) for change in changes}

    def left_after_undo(self, of_slots: Mapping[str, Change]) -> set[str]:
        """Return the addresses of the changes after an undo.

        A module imported while the patches were in effect began with a patch: a name restored there is no change.

        Args:
            of_slots: the patches before the undo.
        """
        values = {id(change.now) for change in of_slots.values()}
        restored = {target for target, (change, _) in self._all_patches().items() if id(change.before) in values}
        return self.addresses() - (restored - of_slots.keys())

    def _patches(self) -> dict[str, Change]:
        return {target: change for change, _, target in Comparison(self._snapshot, {}).patches()}

    def _all_patches(self) -> dict[str, tuple[Change, str]]:
        comparison = Comparison(self._snapshot, {}, everything=True)
        return {target: (change, kind) for change, kind, target in comparison.patches()}


def _package_of(address: str) -> str:
    return address.partition(":")[0].partition(".")[0]


def _author_of(change: Change) -> str | None:
    """Return the distribution of the new value."""
    return (origin_of(change.now, change.before) if change.now is not ABSENT else Origin()).distribution


def _is_of_submodule(change: Change) -> bool:
    if not issubclass(type(change.owner), ModuleType):
        return False
    home = getattr(change.now, "__module__", None)
    return issubclass(type(change.now), ModuleType) or str(home).startswith(f"{change.owner.__name__}.")


def _is_lazy(owner: Any) -> bool:
    """Return True for a module that makes names at the first use, as ``six.moves`` does."""
    is_module = issubclass(type(owner), ModuleType)
    return is_module and (type(owner) is not ModuleType or "__getattr__" in names_of_module(owner))


def _is_of_itself(target: str, change: Change) -> bool:
    """Return True if the distribution of the owner made the new value, such as the only instance of a class."""
    distribution = of_module(target.partition(":")[0]).distribution
    return distribution not in (None, PYTHON) and _author_of(change) == distribution
