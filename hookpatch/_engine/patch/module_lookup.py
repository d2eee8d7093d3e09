"""Find out whether a module is installed and imported, without an import."""

from __future__ import annotations

import inspect
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from types import CellType, FunctionType
from typing import Any, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.interrupts import ErrorsOfCode, is_interrupt
from hookpatch._engine.patch.describe import a_kind
from hookpatch.errors import _suggest


class Presence(NamedTuple):
    """The installation state of a module. A value."""

    installed: bool | None  # None if only the import of the parent module could tell
    imported: bool = False  # imported by this process, or now being imported
    missing: str = ""  # the part that cannot be found, in words
    hint: str = ""  # a similar name in the same package, in words


def presence_of(module: str) -> Presence:
    """Return the installation state of a module; for a pattern of names that of the packages before the first ``*``."""
    if "*" in module:
        packages = module.partition("*")[0].rpartition(".")[0]
        return presence_of(packages)._replace(imported=False) if packages else Presence(installed=None)
    if imports.begun(module):
        return Presence(installed=True, imported=True)
    parts = module.split(".")
    folders: Sequence[str] | None = None
    for index, part in enumerate(parts):
        if index and folders is None:
            return Presence(installed=None)  # the parent is no package, such as a C extension with inner modules
        name = ".".join(parts[: index + 1])
        try:
            is_found, inner_folders = _find(name, folders)
        except Exception as error:  # of a foreign finder: the import itself will show
            if is_interrupt(error):
                raise
            return Presence(installed=None)
        if not is_found:
            if folders is None:
                where = "here; a module beside a program's script is found when the script runs"
                return Presence(installed=False, missing=f"there is no module {name} {where}")
            package = name.removesuffix(part)
            hint = _suggest(part, [info.name for info in pkgutil.iter_modules(folders)], within=package)
            return Presence(installed=False, missing=f"there is no module {name}{hint}", hint=hint)
        folders = inner_folders
    return Presence(installed=True)


def can_be_found(module: object) -> bool:
    """Return True if a finder finds a module, whatever ``sys.modules`` holds under the name."""
    if not isinstance(module, str):
        return False
    package = module.rpartition(".")[0]
    folders = _folders(package) if package else None
    with ErrorsOfCode(Exception):  # of a foreign finder: an import that fails is an error
        return (folders is None or bool(folders)) and imports.spec_of(module, folders) is not None
    return True  # a stand-in too many is silent


def matching_modules(pattern: str) -> list[str]:
    """Return the names of all modules that match a pattern and can be found: imported, or in folders of packages.

    No module is imported: a module is not found if its package sets its own ``__path__`` at import.
    """
    names = {name for name, _ in imports.matching(pattern)}
    head = pattern.partition("*")[0].rpartition(".")[0]
    waiting = [head] if head else [info.name for info in pkgutil.iter_modules()]
    while waiting:
        name = waiting.pop()
        if imports.matches(pattern, name):
            names.add(name)
        if _may_lead_to(pattern, name):
            waiting += [f"{name}.{info.name}" for info in pkgutil.iter_modules(_folders(name))]
    return sorted(name for name in names if not name.endswith("__"))


def nearly(module: str) -> str:
    """Return in words the similar name of a missing module; empty if the module exists or no name is similar."""
    if (presence := presence_of(module)).hint:
        return presence.missing
    top = module.partition(".")[0]
    if presence_of(top).installed is not False:
        return ""
    hint = _similar(top, tuple(sys.path))
    return f"there is no module {top}{hint}" if hint else ""


def no_such_code(function: str) -> str:
    """Return in words why no code runs under a function's place ``module:name``; empty if code does, or may."""
    module, _, path = function.partition(":")
    value: Any = imports.loaded(module)
    if not path or value is None or set(path) & set("*?[<"):
        return ""
    for name in path.split("."):
        owner, value = value, inspect.getattr_static(value, name, None)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        if value is None:
            return f"{module} has no {path}{_suggest(name, vars(owner) if hasattr(owner, '__dict__') else ())}"
    places, functions = list[str](), [value]
    for each in functions:  # also those in the closure of a decorator's function
        if isinstance(each, FunctionType):
            places.append(f"{each.__globals__.get('__name__')}:{each.__code__.co_qualname}")
            inside = [cell.cell_contents for cell in each.__closure__ or () if cell != CellType()]
            functions += [function for function in inside if all(function is not known for known in functions)]
    if function in places:
        return ""
    if places:
        return f"{function} is {places[0]}"
    return f"{function} is {'a class' if isinstance(value, type) else a_kind(value)}; name a Python function"


def fixed_part(pattern: str) -> str:
    """Return the first names of a pattern of modules, up to a wildcard."""
    return ".".join(takewhile(lambda part: not set(part) & set("*?["), pattern.split(".")))


@lru_cache(maxsize=64)  # many blocks may ask for one name
def _similar(name: str, path: tuple[str, ...]) -> str:
    """Return a similar top-level module on a path, in words."""
    loaded = (module.partition(".")[0] for module in imports.names())
    names = {*sys.stdlib_module_names, *loaded}.union(*map(_modules_in, path, map(_changed, path)))
    return _suggest(name, names, least=0.75)  # a typing error: `later` is not a misspelt `alabaster`


@lru_cache(maxsize=256)  # to list site-packages takes twenty milliseconds
def _modules_in(entry: str, changed: int | None) -> frozenset[str]:
    return frozenset(info.name for info in pkgutil.iter_modules([entry]))


def _changed(entry: str) -> int | None:
    """Return when an entry of a path was changed last; None for an entry that does not exist."""
    with ErrorsOfCode(OSError):
        return os.stat(entry or ".").st_mtime_ns
    return None


def _may_lead_to(pattern: str, package: str) -> bool:
    """Return True if a module below a package may match a pattern: by the parts before the first ``*``."""
    head = pattern.partition("*")[0]
    return f"{package}.".startswith(head) or head.startswith(f"{package}.")


def _folders(package: str) -> Sequence[str]:
    """Return the folders of a package; none of another module, or of one that cannot be found."""
    folders: Sequence[str] | None = None
    parts = package.split(".")
    for index in range(len(parts)):
        if index and folders is None:
            return ()
        is_found = False
        with ErrorsOfCode(Exception):  # of a foreign finder
            is_found, folders = _find(".".join(parts[: index + 1]), folders)
        if not is_found:
            return ()
    return folders or ()


def _find(name: str, folders: Sequence[str] | None) -> tuple[bool, Sequence[str] | None]:
    """Return True if a module exists, and the folders of a package, None for another module."""
    if (module := imports.loaded(name)) is not None:
        inner_folders = vars(module).get("__path__")
    elif (spec := imports.spec_of(name, folders)) is not None:
        inner_folders = spec.submodule_search_locations
    else:
        return False, None
    return True, None if inner_folders is None else list(inner_folders)
