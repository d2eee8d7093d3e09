"""Run a foreign apply function in a throwaway process, and express each of the patches as a patch of hookpatch."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from hookpatch._engine.patch.versions import release_of, releases_like
from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.adopt.recipe import recipe_of, value_at
from hookpatch._inspect.audit.compare import Comparison
from hookpatch._inspect.audit.origin import PYTHON, Origin, of_module, origin_of
from hookpatch._inspect.audit.recorder import Recorder
from hookpatch._inspect.audit.snapshot import Change


def adopted(request: list[Any]) -> dict[str, Any]:
    """Run an apply function; return the equivalent patches, the inexpressible changes, and changes left by the undo.

    Args:
        request: the address of the function, for example ``package.module:apply``; the address of the undo function,
            or None; the modules to import before.

    Returns:
        ``entries`` and ``left``; or ``error``, the reason why the function cannot be run.
    """
    apply, undo, modules = request
    sys.path.insert(0, os.getcwd())
    try:
        return _adopted(apply, undo, modules)
    except Exception as error:  # foreign code
        return {"error": f"{type(error).__name__}: {error}"}


def _adopted(apply: str, undo: str | None, modules: Sequence[str]) -> dict[str, Any]:
    home = apply.partition(":")[0]
    for name in (home, *modules):
        import_module(name)
    recorder = Recorder()
    recorder.begin()
    value_at(apply)()
    comparison = Comparison(recorder.snapshot, {}, {}, everything=True)
    patches = {target for *_, target in Comparison(recorder.snapshot, {}, {}).patches()}
    changes = [
        (change, target)
        for change, kind, target in comparison.patches()
        if _package_of(target) != _package_of(home) and (target in patches or kind == "added") and _is_of(change, home)
    ]
    patched = frozenset(target for _, target in changes)
    entries = [_entry(change, target, home, patched) for change, target in changes]
    entries += [
        {"target": finding.target, "verb": None, "reason": f"{finding.kind}: there is no verb for it"}
        for finding in Comparison(recorder.snapshot, {}, {}).findings()
        if finding.kind in ("code", "module")
    ]
    unrestored: list[str] = []
    if undo is not None:
        value_at(undo)()
        after = {target for _, _, target in comparison.patches()}
        unrestored = sorted(target for _, target in changes if target in after)
    return {"entries": sorted(entries, key=lambda entry: str(entry["target"])), "left": unrestored}


def _package_of(address: str) -> str:
    return address.partition(":")[0].partition(".")[0]


def _is_of(change: Change, home: str) -> bool:
    """Return False for a submodule that became an attribute of the package, and for another distribution's change."""
    if change.before is ABSENT and issubclass(type(change.now), ModuleType):
        return False
    origin = origin_of(change.now, change.before) if change.now is not ABSENT else Origin()
    return origin.distribution in (None, PYTHON, of_module(home).distribution)


def _entry(change: Change, target: str, home: str, patched: frozenset[str]) -> dict[str, Any]:
    """Return a patch: target, verb, source and requirement; or the reason why no patch is equivalent."""
    distribution, version = release_of(target.partition(":")[0])
    entry: dict[str, Any] = {"target": target, "requires": releases_like(distribution, version) if distribution else ""}
    if change.now is ABSENT:
        return {**entry, "verb": "remove"}
    recipe = recipe_of(change.now, change.before, home, patched)
    if "reason" in recipe:
        return {**entry, "verb": None, **recipe}
    return {**entry, "verb": "replace" if change.before is not ABSENT or _is_inherited(change) else "add", **recipe}


def _is_inherited(change: Change) -> bool:
    return issubclass(type(change.owner), type) and any(change.name in vars(base) for base in change.owner.__mro__[1:])
