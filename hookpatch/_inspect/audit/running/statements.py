"""Judge whether the statements of a source can have left a foreign value under a name."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, final

from hookpatch._engine.slots.slot import ABSENT
from hookpatch._inspect.audit.kinds import is_code
from hookpatch._inspect.audit.origin import PYTHON, Origin, is_foreign, of_module, origin_of
from hookpatch._inspect.audit.running.definitions import (
    COPY,
    DECORATED,
    OTHERWISE,
    PLAIN,
    Binding,
    Copied,
    Definitions,
    is_of_others,
)
from hookpatch._inspect.audit.running.order import ImportOrder
from hookpatch._inspect.audit.snapshot import Unknown


@final
class Statements:
    """The statements of a module or class, and a foreign value there.

    Args:
        source: the definitions in the module or class.
        module: the module.
        home: the origin of the module.
        names: the names of the module; in a class with those of the class.
        order: the order of the imports.
        value: the foreign value.
    """

    def __init__(
        self,
        source: Definitions,
        module: ModuleType,
        home: Origin,
        names: Mapping[str, Any],
        order: ImportOrder,
        value: Any,
    ) -> None:
        self._source: Final = source
        self._module: Final = module
        self._home: Final = home
        self._names: Final = names
        self._order: Final = order
        self._value: Final = value
        self._author: Final = origin_of(value)

    def original(self, name: str) -> Any:
        """Return the value that the only statement for a name copies; else Unknown."""
        bindings = self._source.bindings(name)
        copied = bindings[0].copied if len(bindings) == 1 else None
        value = ABSENT if copied is None else copied.read(self._names)[1]
        return value if is_code(value) and value is not self._value else Unknown()

    def cannot_leave(self, name: str, is_plain: bool) -> bool:
        """Return True if statements bind a name, and none can have left the value.

        Args:
            name: the name.
            is_plain: True for a module, and for a class that no foreign code has made.
        """
        bindings = [binding for binding in self._source.bindings(name) if not self._is_star_without(binding)]
        if self._home.distribution == PYTHON and bindings:
            return not {PLAIN, OTHERWISE} <= {binding.kind for binding in bindings}  # set by a function of the module
        is_fit = is_plain or {binding.kind for binding in bindings} == {COPY}
        return bool(bindings) and is_fit and not any(self._may_leave(name, each, ()) for each in bindings)

    def _is_star_without(self, binding: Binding) -> bool:
        """Return True for a star import from a module that lacks the name."""
        copied = binding.copied
        is_star = copied is not None and copied._replace(name="*") in self._source.stars
        return is_star and copied is not None and copied.read(self._names)[1] is ABSENT

    def _may_leave(self, name: str, binding: Binding, met: tuple[str, ...]) -> bool:
        """Return True if a statement may have left the value; ``met`` are the names that copied each other before."""
        if binding.kind == DECORATED:
            names = self._source.names_in_decorators(name)
            return not all(is_of_others(self._names, decorator, self._author) for decorator in names)
        if binding.copied is None or binding.kind == OTHERWISE:
            return binding.kind == OTHERWISE
        module, present = binding.copied.read(self._names)
        if module is None:
            return self._may_copy_own(binding.copied, present, met)
        if not module or (binding.copied.is_of_python and present is not self._value):
            return False  # not imported, or from the standard library
        if present is self._value or not (is_code(present) or issubclass(type(present), ModuleType)):
            return not self._order.is_before(self._module, self._home, self._author)
        home = of_module(module)
        is_original = home.is_known and not is_foreign(origin_of(present), home)
        return not (is_original and is_foreign(self._author, home))

    def _may_copy_own(self, copied: Copied, present: Any, met: tuple[str, ...]) -> bool:
        """Return True if a copy of a name of this module may have left the value."""
        if present is not self._value and is_code(present) and not is_foreign(origin_of(present), self._home):
            return not is_foreign(self._author, self._home) or copied.name in met
        bindings = self._source.bindings(copied.name)
        if copied.name in met or not bindings:
            return True
        return any(self._may_leave(copied.name, each, (*met, copied.name)) for each in bindings)
