"""Tell from a module's source whether the module itself stores a later value under one of its names."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.audit.kinds import is_code, is_object
from hookpatch._inspect.audit.origin import PYTHON, Origin, is_foreign, origin_of, requires
from hookpatch._inspect.audit.running.definitions import OTHERWISE, Copied, Definitions, read_definitions
from hookpatch._inspect.audit.snapshot import Snapshot, Unknown, names_of_module


@final
class OwnStores:
    """The statements of modules, each source read at the first question.

    Args:
        snapshot: the former values of modules.
        home_of: returns the origin of a module or class.
    """

    def __init__(self, snapshot: Snapshot, home_of: Callable[[Any], Origin]) -> None:
        self._snapshot: Final = snapshot
        self._home_of: Final = home_of
        self._sources: Final[dict[int, Definitions | None]] = {}

    def is_from_outside(self, owner: Any, name: str, now: Any) -> bool:
        """Return True if no statement of a module can have stored foreign code in place of None.

        Args:
            owner: the module; for a class the answer is False.
            name: the name.
            now: the present value.
        """
        home, origin = self._home_of(owner), origin_of(now)
        if not issubclass(type(owner), ModuleType) or not is_code(now) or not is_foreign(origin, home):
            return False
        if home.distribution != PYTHON and requires(str(home.distribution), str(origin.distribution)):
            return False
        source = self._source(owner)
        return source is not None and bool(kinds := source.kinds(name)) and OTHERWISE not in kinds

    def is_import_at_last(self, owner: Any, name: str, before: Any, now: Any) -> bool:
        """Return True if an import of a module left an object that stood for the value imported at the first use.

        Args:
            owner: the module; for a class the answer is False.
            name: the name.
            before: the former value.
            now: the present value, which the imported module must have had from the start.
        """
        is_definition = type(before) is ModuleType or issubclass(type(before), (type, FunctionType, Unknown))
        if not issubclass(type(owner), ModuleType) or is_definition or not is_object(before):
            return False
        source = self._source(owner)
        return source is not None and any(self._gives(binding.copied, owner, now) for binding in source.bindings(name))

    def removes(self, owner: Any, name: str, module: str) -> bool:
        """Return True if the source of the owner's module deletes the name itself, as xarray does at the exit."""
        deletes = re.compile(rf"^\s*del .*\b{re.escape(name)}\b|delattr\(.*['\"]{re.escape(name)}['\"]", re.MULTILINE)
        loaded = imports.loaded(module)
        return loaded is not None and deletes.search(source_of_module(loaded)) is not None

    def _gives(self, copied: Copied | None, owner: ModuleType, now: Any) -> bool:
        module, value = (None, ABSENT) if copied is None else copied.read(names_of_module(owner))
        if copied is None or module is None or value is not now:
            return False
        note = self._snapshot.modules.get(id(imports.loaded(module)))
        return not copied.name or note is None or note.before.get(copied.name, now) is now

    def _source(self, module: ModuleType) -> Definitions | None:
        if id(module) not in self._sources:
            self._sources[id(module)] = read_definitions(names_of_module(module))
        return self._sources[id(module)]


def source_of_module(module: Any) -> str:
    """Return the source of a module, empty without one. No attribute is read: torch.classes raises for each."""
    names = names_of_module(module)
    file = names.get("__file__")
    return "".join(linecache.getlines(file, names)) if type(file) is str and file.endswith(".py") else ""
