"""Find functions that keep the results of calls, and whose code names a patched function: no patch ends such results.

The code is read, and not run: the function itself, and the Python functions that it names.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.trampoline import is_trampoline
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.referrers import classes
from hookpatch._engine.slots.slot import along_mro, attributes_of, inner, mro

_LISTED: Final = 3
_MAY_KEEP: Final = "names the target and may keep results from before the patch, and of the patch after its end"
_lru_cached: Final = type(lru_cache(lambda: None))


class _Cache(NamedTuple):
    """A filled cache of ``functools.lru_cache``, or a ``cached_property``."""

    store: Any
    function: FunctionType
    codes: Sequence[tuple[FunctionType, set[str], list[Any]]]  # functions, with the names in the code and the values


def caches_of(targets: Sequence[tuple[Any, str]]) -> list[list[str]]:
    """Return in words, for each attribute of a module or class, the caches of functions whose code names it."""
    caches = [*_caches()] if targets else []
    return [_in_words([cache for cache in caches if _is_named(cache, *target)]) for target in targets]


def _caches() -> Iterator[_Cache]:
    for store in gc.get_referrers(_lru_cached, cached_property):  # an object refers to its class
        if type(store) is _lru_cached:
            function = inner(getattr(store, "__wrapped__", None))
            if type(function) is FunctionType and store.cache_info().currsize:
                yield _Cache(store, function, [*_codes(function)])
        elif type(store) is cached_property and type(store.func) is FunctionType:
            yield _Cache(store, store.func, [*_codes(store.func)])


def _codes(function: FunctionType) -> Iterator[tuple[FunctionType, set[str], list[Any]]]:
    """Yield a function, and the Python functions that it names, each with the names in its code and their values."""
    for called in (function, *_named_in(function)[1]):
        if type(called) is _lru_cached:
            called = getattr(called, "__wrapped__", None)
        if type(called) is FunctionType and not is_trampoline(called):
            yield called, *_named_in(called)


def _named_in(function: FunctionType) -> tuple[set[str], list[Any]]:
    names = {*_names_in(function.__code__)}
    return names, [function.__globals__[name] for name in names if name in function.__globals__]


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)


def _is_named(cache: _Cache, owner: Any, name: str) -> bool:
    is_class = issubclass(type(owner), type)
    target = inner(vars(owner).get(name))
    for function, names, values in cache.codes:
        if callable(target) and any(value is target for value in values):
            return True
        if name in names and (
            (not is_class and function.__globals__ is vars(owner))
            or any(value is owner or (is_class and _is_heir(value, owner)) for value in values)
            or (is_class and any(_is_method_of(function, cls) for cls in (*mro(owner), *classes(owner))))
        ):
            return True
    return False


def _is_heir(value: Any, owner: type) -> bool:
    return issubclass(type(value), type) and any(base is owner for base in mro(value))


def _is_method_of(function: FunctionType, cls: type) -> bool:
    if (function.__module__, function.__qualname__.rpartition(".")[0]) != (cls.__module__, cls.__qualname__):
        return False
    module = imports.loaded(cls.__module__)  # of a module executed anew, the class of today
    return module is not None and function.__globals__ is vars(module)


def _in_words(caches: Sequence[_Cache]) -> list[str]:
    lines: list[str] = []
    for store, function, _ in caches:
        if type(store) is _lru_cached:
            lines.append(f"the functools cache of {describe(function)} {_MAY_KEEP}; cache_clear() drops them")
        elif count := sum(_has_value(instance, store) for instance in gc.get_objects()):
            of = f"the cached_property {describe(function)} of {count} object{'s' * (count > 1)}"
            lines.append(f"{of} {_MAY_KEEP}; vars(object).pop({store.attrname!r}, None) drops them")
    further = [f"so may {len(lines) - _LISTED} more caches"] if len(lines) > _LISTED else []
    return [*sorted(lines)[:_LISTED], *further]


def _has_value(instance: Any, computed: cached_property[Any]) -> bool:
    name = computed.attrname
    if name is None or along_mro(type(instance), name) is not computed:
        return False
    attributes = attributes_of(instance)
    return type(attributes) is dict and name in attributes
