"""Find out if a foreign value keeps an object, and may therefore call the object. No foreign code runs."""

from __future__ import annotations

import dis
import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

_DEPTH: Final = 24
_MOST: Final = 500  # objects
_PROXY: Final = "hookpatch._engine.site.proxy"


def keeps(value: object, is_wanted: Callable[[Any], bool]) -> bool:
    """Return True if a value leads to a wanted object: through closures, defaults, attributes, and global names used.

    The search ends after 24 steps and 500 objects: a module-level table of everything is not a wrapper.
    """
    ids = {id(value)}
    level: list[Any] = [value]
    for depth in range(_DEPTH):
        following: list[Any] = []
        for holder in level:
            for referent in _objects_kept_by(holder, is_first=not depth):
                if id(referent) in ids or issubclass(type(referent), ModuleType):
                    continue
                if is_wanted(referent):
                    return True
                ids.add(id(referent))
                following.append(referent)  # kept alive: no id is used twice
                if len(ids) > _MOST:
                    return False
        level = following
    return False


def _objects_kept_by(holder: Any, is_first: bool) -> Iterator[Any]:
    """Yield the objects that an object keeps for calls."""
    kind = type(holder)
    if issubclass(kind, type):
        if is_first:
            yield from type.__dict__["__bases__"].__get__(holder)
    elif kind is FunctionType:
        yield from kept_by_function(holder)
        yield from list(vars(holder).values())
        if is_first:
            names = holder.__globals__
            yield from (names[name] for name in names_in(holder.__code__) if name in names)
    elif not issubclass(kind, (CodeType, str, bytes, int, float)) and not _is_record(kind):
        yield from gc.get_referents(holder)


def _is_record(kind: type) -> bool:
    """Return True for the type of a record of ours: a wrapper keeps records alive, but calls no object in a record."""
    module = type.__dict__["__module__"].__get__(kind)
    return isinstance(module, str) and module.startswith("hookpatch.") and module != _PROXY


def kept_by_function(function: FunctionType) -> Iterator[Any]:
    """Yield the values in the closure and the defaults of a function."""
    yield from chain.from_iterable(map(gc.get_referents, function.__closure__ or ()))  # a cell may be empty
    yield from function.__defaults__ or ()
    yield from list((function.__kwdefaults__ or {}).values())


def globals_used(function: FunctionType) -> dict[str, Any]:
    """Return the global names that a function uses, itself or through functions of its module, with the values."""
    space, values, waiting = function.__globals__, dict[str, Any](), [function]
    while waiting:
        for name in _globals_in(waiting.pop().__code__):
            if name in space and name not in values:
                values[name] = value = space[name]
                if type(value) is FunctionType and value.__globals__ is space:
                    waiting.append(value)
    return values


@lru_cache(maxsize=256)
def _globals_in(code: CodeType) -> frozenset[str]:
    """Return the names of the globals that a code and the nested codes read, without the names of attributes."""
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return frozenset(names).union(*(_globals_in(const) for const in code.co_consts if type(const) is CodeType))


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes used by a code, and by the nested codes."""
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from names_in(constant)
