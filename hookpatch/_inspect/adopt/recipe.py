"""Find how to get the value of a patch again: by an address, by a factory, or by a function made inside another one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import PLAIN
from hookpatch._engine.slots.slot import ABSENT, inner
from hookpatch._inspect.audit.snapshot import names_of_module

_INSIDE: Final = ".<locals>."
_OF_OTHERS: Final = frozenset([*sys.stdlib_module_names, *sys.builtin_module_names])  # packages that are patched
_DEEPEST: Final = 3  # closures of closures


def value_at(address: str) -> Any:
    """Return the value at an address; raises AttributeError or ImportError."""
    module, _, path = address.partition(":")
    value: Any = import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def recipe_of(value: Any, original: Any, home: str, patched: frozenset[str]) -> dict[str, Any]:
    """Return how a plugin gets the value of a patch: ``source`` and more, with the verb; else the reason.

    Args:
        value: the value.
        original: the value before the patch; ABSENT for an added name.
        home: the module of the apply function.
        patched: the addresses of the patched slots.

    Returns:
        ``value``, the value in words; or ``source``, an address, maybe with ``verb`` and the keys of ``_made_inside``;
        or ``reason``.
    """
    if type(value) in PLAIN:
        return {"value": repr(value)}
    if (source := _address_of(value, home, patched)) is not None:
        return {"source": source}
    if (factory := _factory_of(value, original)) is not None:
        return {"verb": "derive", "source": factory}
    if (recipe := _made_inside(inner(value), home, patched)) is not None:
        return recipe
    return {"reason": _reason(value)}


def _reason(value: Any) -> str:
    """Return in words why no recipe makes a value."""
    outer = value.__code__.co_qualname.partition(_INSIDE)[0] if type(value) is FunctionType else ""
    if not outer:
        return f"{type(value).__name__}: no address leads to it"
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    unbound = [name for name, cell in cells if _content(cell) is ABSENT]
    problem = f"its variable {unbound[0]} has no value" if unbound else "no address leads to it"
    return f"a function made in {outer}: {problem}"


def _content(cell: Any) -> Any:
    """Return the content of a cell; ABSENT for a variable without a value."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _address_of(value: Any, home: str, patched: frozenset[str]) -> str | None:
    """Return an address of a value without the patches: of the definition, else in a module of a package of either.

    Args:
        value: the value.
        home: the module of the apply function.
        patched: the addresses of the patched slots.
    """
    value = inner(value) if type(value) in (staticmethod, classmethod) else value
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if type(module) is str and type(name) is str and "<" not in name and f"{module}:{name}" not in patched:
        try:
            if value_at(f"{module}:{name}") is value and not _is_patched_by_another_name(f"{module}:{name}", patched):
                return f"{module}:{name}"
        except (AttributeError, ImportError):
            pass
    spaces = [space for space in (home, module) if type(space) is str]
    packages = {space.partition(".")[0] for space in spaces}
    spaces += sorted(other for other, _ in imports.modules() if other.partition(".")[0] in packages - _OF_OTHERS)
    for space in spaces:
        names = names_of_module(place) if (place := imports.loaded(space)) is not None else {}
        own_name = str(names.get("__name__"))  # a module may lose its name
        for global_name, content in [*names.items()]:
            address = f"{own_name if imports.loaded(own_name) is place else space}:{global_name}"
            if content is value and address not in patched:
                return address
            is_code_of = type(value) is CodeType and type(content) is FunctionType and content.__code__ is value
            if is_code_of and content.__qualname__ == value.co_qualname:  # else the function got this code, too
                return f"{address}.__code__"
    return None


def _is_patched_by_another_name(address: str, patched: frozenset[str]) -> bool:
    """Return True if a class attribute is one of the patched slots, which name the module that shows the class."""
    owner, _, name = address.rpartition(".")
    if ":" not in owner:
        return False  # the name of a module
    return any(other.endswith(f".{name}") and value_at(other[: -len(name) - 1]) is value_at(owner) for other in patched)


def _made_inside(value: Any, home: str, patched: frozenset[str], depth: int = _DEEPEST) -> dict[str, Any] | None:
    """Return how to make anew a function made inside another function, with the values of its closure; else None.

    Returns:
        ``source``, the address of the code; ``defaults`` and ``keywords`` in words; ``cells``, how to make each value
        of the closure; or ``source``, a function, and ``of``, how to make its only argument.
    """
    if type(value) is not FunctionType or not depth:
        return None
    cells: list[Any] = []
    for cell in value.__closure__ or ():
        if (content := _content(cell)) is ABSENT:
            return None  # a function that shares the variable may set it later
        address = _address_of(content, home, patched) or _address_of_container(content, home)
        recipe = {"source": address} if address is not None else _made_inside(content, home, patched, depth - 1)
        if recipe is None:  # a plain value may be a variable that the functions share
            return None
        cells.append(recipe)
    if len(cells) == 1 and (factory := _factory_of(value, _content((value.__closure__ or ())[0]))) is not None:
        return {"source": factory, "of": cells[0]}
    outer, _, name = value.__code__.co_qualname.rpartition(_INSIDE)
    defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    if (
        not outer
        or value.__dict__
        or "<" in outer + name.replace("<lambda>", "")
        or not all(type(default) in PLAIN for default in defaults)
    ):
        return None
    address = f"{value.__globals__['__name__']}:{outer}"
    try:
        codes = [code for code in value_at(address).__code__.co_consts if getattr(code, "co_name", None) == name]
    except (AttributeError, ImportError):
        return None
    if len(codes) != 1 or codes[0] is not value.__code__:
        return None
    words = {"defaults": repr(value.__defaults__), "keywords": repr(value.__kwdefaults__)}
    return {"source": f"{address}{_INSIDE}{name}", **words, "cells": cells}


def _address_of_container(value: Any, home: str) -> str | None:
    """Return an address of a container that a module used by the apply function holds; else None."""
    if type(value) not in (dict, list, set):
        return None
    used = {name.partition(".")[0] for name in _modules_in(home)}
    for module_name, module in imports.modules():
        if module_name.partition(".")[0] in used:
            for global_name, content in names_of_module(module).items():
                if content is value:
                    return f"{module_name}:{global_name}"
    return None


def _modules_in(home: str) -> Iterator[str]:
    """Yield the names of the modules that a module holds."""
    module = imports.loaded(home)
    for value in names_of_module(module).values() if module is not None else ():
        if issubclass(type(value), ModuleType):
            yield str(names_of_module(value)["__name__"])


def _factory_of(value: Any, original: Any) -> str | None:
    """Return the address of the function that makes a wrapper like the value around the original; None without one."""
    for function in _functions_in(value):
        outer, inside, _ = function.__code__.co_qualname.partition(_INSIDE)
        if not inside or all(_content(cell) is not original for cell in function.__closure__ or ()):
            continue
        address = f"{function.__globals__['__name__']}:{outer}"
        try:
            factory = value_at(address)
            if len(inspect.signature(factory).parameters) == 1 and _is_like(factory(original), value):
                return address
        except Exception:  # foreign code
            continue
    return None


def _functions_in(value: Any, depth: int = _DEEPEST) -> Iterator[FunctionType]:
    """Yield a function, then the functions in its closure."""
    if type(value) is FunctionType:
        yield value
        for cell in (value.__closure__ or ()) if depth else ():
            yield from _functions_in(_content(cell), depth - 1)


def _is_like(one: Any, other: Any, depth: int = _DEEPEST) -> bool:
    """Return True for equal values, and for functions of the same code with such values in the closures."""
    if one is other or not depth:
        return one is other
    if type(one) is not FunctionType or type(other) is not FunctionType:
        return type(one) is type(other) and type(one) in PLAIN and bool(one == other)
    cells = [[*map(_content, function.__closure__ or ())] for function in (one, other)]
    is_same = one.__code__ is other.__code__ and one.__defaults__ == other.__defaults__
    return is_same and all(_is_like(first, second, depth - 1) for first, second in zip(*cells, strict=True))
