"""Run a foreign apply function in a throwaway process, and express each of the patches as a patch of hookpatch."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.patch.versions import release_of, releases_like
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._inspect.audit.compare import Comparison
from hookpatch._inspect.audit.origin import PYTHON, Origin, of_module, origin_of
from hookpatch._inspect.audit.recorder import Recorder
from hookpatch._inspect.audit.snapshot import Change, names_of_module

_INSIDE: Final = ".<locals>."


def seen(asked: list[Any]) -> dict[str, Any]:
    """Run an apply function; return the equivalent patches, the inexpressible changes, and changes left by the undo.

    Args:
        asked: the address of the function, for example ``package.module:apply``; the address of the undo function, or
            None; the modules to import before.

    Returns:
        ``entries`` and ``left``; or ``error``, the reason why the function cannot be run.
    """
    apply, undo, modules = asked
    sys.path.insert(0, os.getcwd())
    try:
        return _seen(apply, undo, modules)
    except Exception as error:  # foreign code
        return {"error": f"{type(error).__name__}: {error}"}


def _seen(apply: str, undo: str | None, modules: Sequence[str]) -> dict[str, Any]:
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
    taken = frozenset(target for _, target in changes)
    entries = [_entry(change, target, home, taken) for change, target in changes]
    entries += [
        {"target": finding.target, "verb": None, "reason": f"{finding.kind}: there is no verb for it"}
        for finding in Comparison(recorder.snapshot, {}, {}).findings()
        if finding.kind in ("code", "module")
    ]
    left: list[str] = []
    if undo is not None:
        value_at(undo)()
        after = {target for _, _, target in comparison.patches()}
        left = sorted(target for _, target in changes if target in after)
    return {"entries": sorted(entries, key=lambda entry: str(entry["target"])), "left": left}


def _package_of(address: str) -> str:
    return address.partition(":")[0].partition(".")[0]


def value_at(address: str) -> Any:
    """Return the value at an address; raises AttributeError or ImportError."""
    module, _, path = address.partition(":")
    value: Any = import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _is_of(change: Change, home: str) -> bool:
    """Return False for a submodule that became an attribute of the package, and for another distribution's change."""
    if change.before is ABSENT and issubclass(type(change.now), ModuleType):
        return False
    origin = origin_of(change.now, change.before) if change.now is not ABSENT else Origin()
    return origin.distribution in (None, PYTHON, of_module(home).distribution)


def _entry(change: Change, target: str, home: str, taken: frozenset[str]) -> dict[str, Any]:
    """Return a patch: target, verb, source and requirement; or the reason why no patch is equivalent."""
    distribution, version = release_of(target.partition(":")[0])
    entry: dict[str, Any] = {"target": target, "requires": releases_like(distribution, version) if distribution else ""}
    now = change.now
    if now is ABSENT:
        return {**entry, "verb": "remove"}
    verb = "replace" if change.before is not ABSENT or _is_inherited(change) else "add"
    if type(now) in PLAIN:
        return {**entry, "verb": verb, "value": repr(now)}
    if (source := _address_of(now, home, taken)) is not None:
        return {**entry, "verb": verb, "source": source}
    if verb == "replace" and (factory := _factory_of(now, change.before)) is not None:
        return {**entry, "verb": "derive", "source": factory}
    if verb == "replace" and (made := _made_inside(now)) is not None:
        return {**entry, "verb": verb, "source": made, "defaults": repr(inner(now).__defaults__)}
    inside = now.__code__.co_qualname.partition(_INSIDE)[0] if type(now) is FunctionType else ""
    kind = f"a function made in {inside}" if inside else type(now).__name__
    return {**entry, "verb": None, "reason": f"{kind}: no address leads to it"}


def _is_inherited(change: Change) -> bool:
    return issubclass(type(change.owner), type) and any(change.name in vars(base) for base in change.owner.__mro__[1:])


def _address_of(value: Any, home: str, taken: frozenset[str]) -> str | None:
    """Return an address of a value without the patches: of the definition, else in one of two modules.

    Args:
        value: the value.
        home: the module of the apply function.
        taken: the addresses of the patched slots.
    """
    value = inner(value) if type(value) in (staticmethod, classmethod) else value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is str and type(name) is str and "<" not in name and f"{module}:{name}" not in taken:
        try:
            if value_at(f"{module}:{name}") is value:
                return f"{module}:{name}"
        except (AttributeError, ImportError):
            pass
    for place in filter(None, (imports.loaded(space) for space in (home, module) if type(space) is str)):
        for known, held in names_of_module(place).items():
            address = f"{names_of_module(place)['__name__']}:{known}"
            if held is value and address not in taken:
                return address
    return None


def _made_inside(value: Any) -> str | None:
    """Return the address of a function made inside another function without a closure; else None."""
    value = inner(value) if type(value) in (staticmethod, classmethod) else value
    if type(value) is not FunctionType or value.__closure__ or value.__kwdefaults__:
        return None
    outer, _, name = value.__code__.co_qualname.rpartition(_INSIDE)
    if not outer or "<" in outer + name or not all(type(default) in PLAIN for default in value.__defaults__ or ()):
        return None
    address = f"{value.__globals__['__name__']}:{outer}"
    try:
        codes = [code for code in value_at(address).__code__.co_consts if getattr(code, "co_name", None) == name]
    except (AttributeError, ImportError):
        return None
    return f"{address}{_INSIDE}{name}" if len(codes) == 1 and codes[0] is value.__code__ else None


def _factory_of(value: Any, before: Any) -> str | None:
    """Return the address of the function that made a wrapper around the original, if the original is the only cell."""
    cells = (value.__closure__ or ()) if type(value) is FunctionType else ()
    if len(cells) != 1 or _INSIDE not in value.__code__.co_qualname:
        return None
    address = f"{value.__globals__['__name__']}:{value.__code__.co_qualname.partition(_INSIDE)[0]}"
    try:
        factory = value_at(address)
        if cells[0].cell_contents is not before or len(inspect.signature(factory).parameters) != 1:
            return None
        made = factory(before)
    except Exception:  # foreign code
        return None
    return address if type(made) is FunctionType and made.__code__ is value.__code__ else None
