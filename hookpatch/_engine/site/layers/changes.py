"""What the callables and values of patches keep for themselves: a wrapper may call the original by a name or cell."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any, Final, final

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.kept import globals_used
from hookpatch._engine.slots.originals import patched_at
from hookpatch._engine.slots.part import own_places
from hookpatch._engine.slots.slot import Slot, inner


@final
class Changes:
    """The callables and values of a session's patches. Each may keep the original for itself.

    Lives while patches are applied: what the callables keep is looked up once.

    Attributes:
        values: the callables and values, each once.
    """

    __slots__ = ("_kept", "_named", "_used", "values")

    def __init__(self, changes: Iterable[Any]) -> None:
        self.values: Final = [*{id(change): change for change in changes}.values()]
        # By id, as references to the objects would be counted.
        self._kept: set[int] | None = None
        self._named: Final[dict[str, set[int]]] = {}  # by module, the values of the module's names
        self._used: Final[dict[int, set[tuple[Any, ...]]]] = {}  # values of global names, with the keys of the slots

    def keep(self, referent: object, slot: Slot) -> bool:
        """Return True if a callable keeps an object, or uses the object by a global name that is not of the slot."""
        if (ids := self._kept) is None:
            self._kept = ids = self._look()
        return id(referent) in ids or not self._used.get(id(referent), set()) <= {slot.key}

    def have_named(self, referent: object, home: str) -> bool:
        """Return True if the module of a plugin has a name for an object."""
        if (ids := self._named.get(home)) is None:
            module = imports.loaded(home)
            self._named[home] = ids = set() if module is None else {*map(id, [*vars(module).values()])}
        return id(referent) in ids

    def _look(self) -> set[int]:
        ids: set[int] = set()
        for function in map(inner, self.values):
            for key, value in own_places(function).items():
                patched = patched_at(key)
                ids.add(id(value if patched is None else patched.original))
            for key, value in _own_globals(function).items() if type(function) is FunctionType else ():
                self._used.setdefault(id(value), set()).add(key)
        return ids


def own_keys(changes: Iterable[Any]) -> frozenset[tuple[Any, ...]]:
    """Return the keys of the slots in which the callables and values of patches keep objects."""
    changes = [*changes]
    return frozenset().union(*map(own_places, changes), *map(_own_globals, changes))


def _own_globals(change: Any) -> dict[tuple[Any, ...], Any]:
    """Return the values of the global names that a wrapper, factory or patch's value uses, by the key of the slot."""
    functions = [inner(value) for value in vars(change).values()] if isinstance(change, type) else [inner(change)]
    values: dict[tuple[Any, ...], Any] = {}
    for function in functions:
        module = imports.loaded(function.__module__) if type(function) is FunctionType else None
        if module is not None and vars(module) is function.__globals__:
            values |= {("attribute", id(module), name): value for name, value in globals_used(function).items()}
    return values
