"""Lazy imports (PEP 810, from Python 3.15 on): names of a module that Python binds at their first use.

A name first used during a session would be bound to the patched value, in a module imported long before. So we note
all lazy names when a slot is patched, without waking them.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._bootstrap.imports import begun_names
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import ABSENT, Slot

_KIND: Final[Any] = getattr(types, "LazyImportType", None)
KNOWS_LAZY: Final = _KIND is not None
_names: Final[dict[str, dict[tuple[str, str], None]]] = {}  # module and name, by the last word of the imported name
_module_ids: dict[str, int] = {}  # the id of each searched module, by name
_module_count = 0  # of the last search


def is_lazy(value: object) -> bool:
    """Return True if a value is an unused lazy import."""
    return _KIND is not None and type(value) is _KIND


def source_of(value: object) -> str:
    """Return the full name of the imported module or name, such as ``vendor.limits.LIMIT``."""
    return str(_KIND.__repr__(value)).partition("'")[2].rpartition("'")[0]


def lazy_names(slot: Slot) -> Sequence[AttributeSlot]:
    """Return all lazy names whose first use may bind them to the value of a slot."""
    if _KIND is None or not isinstance(slot, AttributeSlot) or not isinstance(slot.owner, types.ModuleType):
        return ()
    if len(begun_names) != _module_count:  # else no module is new; lazy imports of a reloaded module are missed
        _search_new_modules()
    places = _names.get(slot.name, {})
    names = []
    for place in list(places):
        module = imports.loaded(place[0])
        if module is not None and is_lazy((name := AttributeSlot(module, place[1])).read()):
            names.append(name)
        else:
            del places[place]
    return [name for name in names if name.key != slot.key]


def lazy_places(name: str) -> Collection[tuple[str, str]]:
    """Return the modules, and names, that may have a lazy import of a value of this name. Takes no lock."""
    if len(begun_names) != _module_count:
        _search_new_modules()
    return _names.get(name, ())


def follow(names: Iterable[AttributeSlot], before: Any, value: Any) -> None:
    """Bind names to the slot's new value if they were bound to the former value."""
    for name in names:
        if value is not ABSENT and name.read() is before:
            name.write(value)


def _search_new_modules() -> None:
    global _module_ids, _module_count
    count = len(begun_names)
    modules = imports.modules()
    for module_name, module in modules:
        if _module_ids.get(module_name) == id(module):
            continue
        for name, value in vars(module).copy().items():
            if is_lazy(value):
                _names.setdefault(source_of(value).rpartition(".")[2], {})[module_name, name] = None
    _module_ids, _module_count = {name: id(module) for name, module in modules}, count
