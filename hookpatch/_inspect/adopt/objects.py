"""Find attributes that a patch sets on single objects, and modules that a patch has put in place of an import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT, attributes_of
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.snapshot import Change, names_of_module


class _Note(NamedTuple):
    """An object that a module holds, the object's address, and the former attributes."""

    address: str
    value: Any
    before: dict[str, Any]


@final
class Objects:
    """The attributes of the objects that modules hold, and the classes of the modules, at a moment."""

    def __init__(self) -> None:
        self._notes: Final[dict[int, _Note]] = {}
        self._classes: Final = {id(module): (module, type(module)) for _, module in imports.modules()}
        for module_name, module in imports.modules():
            for name, value in [*names_of_module(module).items()] if issubclass(type(module), ModuleType) else ():
                if issubclass(type(value), (ModuleType, type, FunctionType)):
                    continue
                attributes = attributes_of(value)
                is_home = getattr(type(value), "__module__", None) == module_name
                if type(attributes) is dict and (is_home or id(value) not in self._notes):
                    self._notes[id(value)] = _Note(f"{module_name}:{name}", value, {**attributes})

    def class_of(self, module: Any) -> type | None:
        """Return the class that a module had."""
        return self._classes.get(id(module), (None, None))[1]

    def changes(self) -> Iterator[tuple[str, Change]]:
        """Yield each attribute of an object with another function, or another plain value, or without a function."""
        for address, value, before in [*self._notes.values()]:
            now = dict(attributes_of(value) or {})
            for name in {**before, **now} if now != before else ():
                old, new = before.get(name, ABSENT), now.get(name, ABSENT)
                if old is not new and type(name) is str and (is_code(new) or is_code(old)):
                    yield f"{address}.{name}", Change(value, name, old, new)


def modules_by_hand(before: Mapping[str, Any]) -> list[str]:
    """Return the names of new modules that no import of the name made: an alias, or a module made by hand.

    A package that registers further names of its own is no patch.
    """
    names = []
    for name, module in imports.modules():
        top = imports.module_named(name.partition(".")[0])
        is_private = name.startswith("__")  # such as the copies of modules that eventlet keeps
        if (
            name not in before
            and not is_private
            and not _is_regular(name, module)
            and not _is_regular(name.partition(".")[0], top)
        ):
            names.append(name)
    return names


def _is_regular(name: str, module: Any) -> bool:
    """Return True for a module made by an import of the name, or whose file has put another object in its place."""
    names = names_of_module(module)
    spec, path = names.get("__spec__"), name.replace(".", os.sep)
    file = os.path.splitext(str(names.get("__file__")))[0].removesuffix(f"{os.sep}__init__")
    return (type(spec) is ModuleSpec and spec.name == name) or file.endswith(f"{os.sep}{path}")
