"""Find functions that keep results of calls, and whose code leads to a patched function: no patch ends such results.

Code is read, and not run: code of the function, of named Python functions, and of functions named by functions of the
same package.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeAlias

from hookpatch._bootstrap import imports
from hookpatch._engine.calls.kept import names_in
from hookpatch._engine.calls.trampoline import is_trampoline
from hookpatch._engine.patch.describe import describe
from hookpatch._engine.slots.referrers import all_but_tuples, classes, module_of
from hookpatch._engine.slots.slot import along_mro, attributes_of, inner, is_class_of_program, mro

_Named: TypeAlias = tuple[FunctionType, set[str], list[Any]]  # a function, the names in its code and their values

_LISTED: Final = 3
_DEEPEST: Final = 5  # functions between a cache and the function that names the target
_MAY_KEEP: Final = "names the target and may keep results from before the patch, and of the patch after its end"
_lru_cached: Final = type(lru_cache(lambda: None))


class _Cache(NamedTuple):
    """A filled cache of ``functools.lru_cache``, or a ``cached_property``."""

    store: Any
    function: FunctionType
    codes: Sequence[_Named]


def caches_of(targets: Sequence[tuple[Any, str]]) -> list[list[str]]:
    """Return in words, for each attribute of a module or class, the caches with code that leads to the attribute."""
    caches = [*_caches()] if targets else []
    every = {id(named[0]): named for cache in caches for named in cache.codes}.values()
    found: list[list[str]] = []
    for owner, name in targets:
        naming = {id(named[0]) for named in every if _names_target(named, owner, name)}
        of_target = [cache for cache in caches if any(id(function) in naming for function, *_ in cache.codes)]
        found.append(_in_words(of_target))
    return found


def _caches() -> Iterator[_Cache]:
    named_in = cache(_named_in)  # most functions are reached from several caches
    for store in gc.get_referrers(_lru_cached, cached_property):  # an object refers to its class
        if type(store) is _lru_cached:
            function = inner(getattr(store, "__wrapped__", None))
            if type(function) is FunctionType and store.cache_info().currsize:
                yield _Cache(store, function, [*_codes(function, named_in)])
        elif type(store) is cached_property and type(store.func) is FunctionType:
            yield _Cache(store, store.func, [*_codes(store.func, named_in)])


def _codes(function: FunctionType, named_in: Callable[[FunctionType], _Named]) -> Iterator[_Named]:
    """Yield a function and the Python functions reached by the code; in other packages only the first functions."""
    package, known = _package_of(function), set[int]()
    level: list[Any] = [function]
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for called in map(_function_of, level):
            if type(called) is FunctionType and id(called) not in known and not is_trampoline(called):
                known.add(id(called))
                yield (named := named_in(called))
                if _package_of(called) == package:
                    following += [*named[2], *_members_named(*named)]
        level = following


def _function_of(value: Any) -> Any:
    if type(value) is _lru_cached:
        return getattr(value, "__wrapped__", None)
    if type(value) is property:
        return value.fget
    return value.func if type(value) is cached_property else inner(value)


def _package_of(owner: Any) -> str:
    return str(module_of(owner)).partition(".")[0]


def _named_in(function: FunctionType) -> _Named:
    names = {*names_in(function.__code__)}
    return function, names, [function.__globals__[name] for name in names if name in function.__globals__]


def _members_named(function: FunctionType, names: set[str], values: Sequence[Any]) -> Iterator[Any]:
    """Yield the members named in a function's code, of the function's class and of named classes."""
    own = function.__globals__.get(function.__qualname__.rpartition(".")[0])
    for cls in (own, *values):
        if is_class_of_program(cls) and _package_of(cls) == _package_of(function):
            missing = names
            for base in mro(cls):
                own_names = missing & vars(base).keys()
                yield from (vars(base).get(name) for name in own_names)
                missing = missing - own_names


def _names_target(named: _Named, owner: Any, name: str) -> bool:
    function, names, values = named
    is_class = issubclass(type(owner), type)
    target = inner(vars(owner).get(name))
    if callable(target) and any(value is target for value in values):
        return True
    if name not in names:
        return False
    if not is_class and function.__globals__ is vars(owner):
        return True
    if any(value is owner or (is_class and _is_heir(value, owner)) for value in values):
        return True
    return is_class and any(_is_method_of(function, cls) for cls in (*mro(owner), *classes(owner)))


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
        elif count := sum(_has_value(instance, store) for instance in all_but_tuples()):
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
