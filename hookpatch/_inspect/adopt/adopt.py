"""Run a foreign apply function in a throwaway process, and express each of the patches as a patch of hookpatch."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Sequence
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
_DEEPEST: Final = 3  # closures of closures


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
    if (made := _made_inside(inner(now), home, taken | {target})) is not None:
        return {**entry, "verb": verb, **made}
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


def _made_inside(value: Any, home: str, taken: frozenset[str], depth: int = _DEEPEST) -> dict[str, Any] | None:
    """Return how to make anew a function made inside another function, with the values of its closure; else None.

    Returns:
        ``source``, the address of the code; ``defaults`` and ``keywords`` in words; ``cells``, how to make each value
        of the closure; or ``source``, a function, and ``of``, how to make its only argument.
    """
    if type(value) is not FunctionType or not depth:
        return None
    cells: list[Any] = []
    for cell in value.__closure__ or ():
        held = cell.cell_contents
        known = _address_of(held, home, taken) or _address_of_container(held, home)
        made = {"source": known} if known is not None else _made_inside(held, home, taken, depth - 1)
        if made is None:  # a plain value may be a variable that the functions share
            return None
        cells.append(made)
    if len(cells) == 1 and (factory := _factory_of(value, (value.__closure__ or ())[0].cell_contents)) is not None:
        return {"source": factory, "of": cells[0]}
    outer, _, name = value.__code__.co_qualname.rpartition(_INSIDE)
    defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    if not outer or "<" in outer + name or not all(type(default) in PLAIN for default in defaults):
        return None
    address = f"{value.__globals__['__name__']}:{outer}"
    try:
        codes = [code for code in value_at(address).__code__.co_consts if getattr(code, "co_name", None) == name]
    except (AttributeError, ImportError):
        return None
    if len(codes) != 1 or codes[0] is not value.__code__:
        return None
    words = {"defaults": repr(value.__defaults__), "keywords": repr(value.__kwdefaults__)}
    return {"source": f"{address}{_INSIDE}{name}", **words, "cells": cells}


def _address_of_container(value: Any, home: str) -> str | None:
    """Return an address of a container that a module used by the apply function holds; else None."""
    if type(value) not in (dict, list, set):
        return None
    used = {name.partition(".")[0] for name in _modules_in(home)}
    for name, module in imports.modules():
        if name.partition(".")[0] in used:
            for known, held in names_of_module(module).items():
                if held is value:
                    return f"{name}:{known}"
    return None


def _modules_in(home: str) -> Iterator[str]:
    """Yield the names of the modules that a module holds."""
    module = imports.loaded(home)
    for value in names_of_module(module).values() if module is not None else ():
        if issubclass(type(value), ModuleType):
            yield str(names_of_module(value)["__name__"])


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
