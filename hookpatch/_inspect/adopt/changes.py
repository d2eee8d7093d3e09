"""Separate the changes made by an apply function from the changes made by other code during its run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from importlib.util import resolve_name
from types import ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT
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

    def of_apply(self) -> dict[str, Change]:
        """Return the changed slots due to the apply function: patches, and names added to foreign modules and classes.

        A name that a package loads from a submodule is no change of the apply function.
        """
        patches, authors = self._patches(), _authors(self._home)
        return {
            target: change
            for target, (change, kind) in self._all_patches().items()
            if _package_of(target) != _package_of(self._home)
            and (target in patches or (kind == "added" and not _is_of_submodule(change)))
            and _author_of(change) in (None, PYTHON, *authors)
        }

    def of_entries(self) -> dict[str, Change]:
        """Return the changed entries of foreign dictionaries due to the apply function: functions and classes.

        The owner of such a change is the dictionary, the name is the key. Anything else is left out, as a cache is.
        """
        entries, authors = {}, _authors(self._home)
        for (_, _, mapping, key, before, now), target in Comparison(self._snapshot, {}).entries():
            is_exchanged = is_code(before) and (now is ABSENT or is_code(now))
            if _package_of(target) != _package_of(self._home) and (is_exchanged or is_code(now)):
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

    def of_no_slot(self) -> dict[str, str]:
        """Return each changed code and each exchanged module, and the kind."""
        findings = Comparison(self._snapshot, {}).findings()
        return {finding.target: finding.kind for finding in findings if finding.kind in ("code", "module")}

    def addresses(self) -> set[str]:
        """Return the addresses of all changes, made by the function or by other code."""
        return {*self._all_patches(), *self.of_no_slot(), *self.of_entries()}

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
    while names:
        for name in _imported_by(names.pop()):
            distribution = of_module(name).distribution
            authors.add(distribution)
            if distribution is None and name not in seen:
                seen.add(name)
                names.append(name)
    return authors


def _imported_by(name: str) -> set[str]:
    """Return the modules that the statements of a module import; empty without a readable source."""
    module: Any = imports.loaded(name)
    try:
        nodes = [*ast.walk(ast.parse(inspect.getsource(module)))]
    except (OSError, TypeError, SyntaxError, ValueError):
        return set()
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
