"""Separate the changes made by an apply function from the changes made by other code during its run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from importlib.util import resolve_name
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.adopt.objects import Objects, modules_by_hand
from hookpatch._inspect.audit.compare import Comparison
from hookpatch._inspect.audit.kinds import is_code
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

    def of_apply(self) -> dict[str, Change]:
        """Return the changed slots due to the apply function: patches, and names added to foreign modules and classes.

        A name that a package loads from a submodule is no change of the apply function.
        """
        patches, authors, stored = self._patches(), _authors(self._home), _stored_by(self._home)
        changes = {
            target: change
            for target, (change, kind) in self._all_patches().items()
            if _package_of(target) != _package_of(self._home)
            and (
                target in patches
                or (kind == "added" and not _is_of_submodule(change) and not _is_of_itself(target, change))
                or (change.name in stored and type(change.now) in PLAIN)
            )
            and _author_of(change) in (None, PYTHON, *authors)
        }
        for target, change in self._objects.changes():
            origin = origin_of(change.now, change.before) if change.now is not ABSENT else Origin()
            is_own = origin.distribution in authors and (origin.distribution or origin.file) not in (None, PYTHON)
            if (is_own or change.name in stored) and _package_of(target) != _package_of(self._home):
                changes[target] = change
        return changes

    def of_entries(self) -> dict[str, Change]:
        """Return the changed entries of foreign dictionaries due to the apply function.

        The owner of such a change is the dictionary, the name is the key. The values are functions and classes, or
        plain values of keys that the function's module sets. Anything else is left out, as a cache is.
        """
        entries: dict[str, Change] = {}
        authors, stored = _authors(self._home), _stored_by(self._home)
        for (_, _, mapping, key, before, now), target in Comparison(self._snapshot, {}).entries():
            is_exchanged = is_code(before) and (now is ABSENT or is_code(now))
            is_ours = issubclass(type(key), type) and str(key.__module__).startswith("hookpatch")
            is_foreign = _package_of(target) != _package_of(self._home) and not is_ours
            if is_foreign and type(key) is str and key in stored and type(now) in PLAIN:
                entries[target] = Change(mapping, key, before, now)
            elif is_foreign and (is_exchanged or is_code(now)):
                origin = origin_of(now, before) if now is not ABSENT else Origin()
                is_own = origin.distribution in authors and (origin.distribution or origin.file) not in (None, PYTHON)
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
            if _package_of(name) != _package_of(self._home):
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


def _authors(home: str) -> set[str | None]:
    """Return the distributions whose values an apply function may write: its own, and those that its module imports.

    An imported module outside of distributions, such as a file beside the program, counts with its own imports.
    """
    authors, names, seen = {of_module(home).distribution}, [home], {home}
    module = imports.module_named(home)
    if not issubclass(type(module), ModuleType):  # a package may put an object in its place, as snoop does
        authors.add(origin_of(type(module)).distribution)
    while names:
        for name in _imported_by(names.pop()):
            distribution = of_module(name).distribution
            authors.add(distribution)
            if distribution is None and name not in seen:
                seen.add(name)
                names.append(name)
    return authors


def _stored_by(name: str) -> set[str]:
    """Return the attributes and keys that the source of a module sets, by statements or by ``setattr``."""
    stored: set[str] = set()
    for node in _nodes(name):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            stored.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            stored |= {
                word.value for word in [node.slice] if isinstance(word, ast.Constant) and type(word.value) is str
            }
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            stored |= {str(word.value) for word in node.args[1:2] if isinstance(word, ast.Constant)}
    return stored


def _nodes(name: str) -> list[ast.AST]:
    """Return the syntax tree of a module as a list; empty without a readable source."""
    module: Any = imports.loaded(name)
    try:
        return [*ast.walk(ast.parse(inspect.getsource(module)))]
    except (OSError, TypeError, SyntaxError, ValueError):
        return []


def _imported_by(name: str) -> set[str]:
    """Return the modules that the statements of a module import; empty without a readable source."""
    module: Any = imports.loaded(name)
    nodes = _nodes(name)
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            package = str(names_of_module(module).get("__package__") or "")
            source = resolve_name("." * node.level + (node.module or ""), package) if package or not node.level else ""
            names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return {imported for imported in names if imports.loaded(imported) is not None}


def _is_of_submodule(change: Change) -> bool:
    if not issubclass(type(change.owner), ModuleType):
        return False
    home = getattr(change.now, "__module__", None)
    return issubclass(type(change.now), ModuleType) or str(home).startswith(f"{change.owner.__name__}.")


def _is_of_itself(target: str, change: Change) -> bool:
    """Return True if the distribution of the owner made the new value, such as the only instance of a class."""
    distribution = of_module(target.partition(":")[0]).distribution
    return distribution not in (None, PYTHON) and _author_of(change) == distribution
