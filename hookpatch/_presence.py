"""Whether a module is installed and imported: found out without importing anything."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hookpatch import _imports
from hookpatch.errors import _suggest


class Presence(NamedTuple):
    """What is known of a module. A value.

    Attributes:
        installed: True when it can be found; None when only what contains it could tell, once that is imported.
        imported: True when this process has imported it, or is about to.
        missing: what cannot be found, in words; empty when all can.
        hint: what of nearly that name is there instead, in words; of what is in a package.
    """

    installed: bool | None
    imported: bool = False
    missing: str = ""
    hint: str = ""


def presence_of(module: str) -> Presence:
    """Return what is known of a module."""
    if _imports.begun(module):
        return Presence(installed=True, imported=True)
    parts = module.split(".")
    folders: Sequence[str] | None = None
    for at, part in enumerate(parts):
        if at and folders is None:
            return Presence(installed=None)  # in something that is no package, such as a C extension's own modules
        name = ".".join(parts[: at + 1])
        try:
            is_there, inside = _look(name, folders)
        except Exception:  # of somebody's finder: whether it finds it shows when it is imported
            return Presence(installed=None)
        if not is_there:
            if folders is None:
                where = "here; one that lies beside a program's script is found when that runs"
                return Presence(installed=False, missing=f"there is no module {name} {where}")
            hint = _suggest(part, [one.name for one in pkgutil.iter_modules(folders)])
            return Presence(installed=False, missing=f"there is no module {name}{hint}", hint=hint)
        folders = inside
    return Presence(installed=True)


def nearly(module: str) -> str:
    """Return in words that there is no such module, but one of nearly that name; empty if that is not so."""
    if (presence := presence_of(module)).hint:
        return presence.missing
    top = module.partition(".")[0]
    if presence_of(top).installed is not False:
        return ""
    hint = _like(top, tuple(sys.path))
    return f"there is no module {top}{hint}" if hint else ""


@lru_cache(maxsize=64)
def _like(name: str, path: tuple[str, ...]) -> str:
    """Return which module on this path has nearly that name, in words: kept, for many a block may ask the same."""
    loaded = (name.partition(".")[0] for name in _imports.names())
    known = {*sys.stdlib_module_names, *loaded, *(one.name for one in pkgutil.iter_modules(path))}
    return _suggest(name, known, least=0.75)  # a slip of the keyboard: later is no misspelt alabaster


def _look(name: str, folders: Sequence[str] | None) -> tuple[bool, Sequence[str] | None]:
    """Return whether a module is there, and the folders of what is in it, None if it is no package."""
    here = _imports.loaded(name)
    if here is not None:
        inside = vars(here).get("__path__")
        return True, None if inside is None else list(inside)
    spec = _imports.spec_of(name, folders)
    if spec is None:
        return False, None
    inside = spec.submodule_search_locations
    return True, None if inside is None else list(inside)
