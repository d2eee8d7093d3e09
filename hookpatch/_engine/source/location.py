"""Return the file and line of an object's definition, and a short text for a value."""

from __future__ import annotations

import inspect
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap.interrupts import ErrorsOfCode
from hookpatch._engine.patch.describe import PLAIN, a_kind, describe
from hookpatch._engine.patch.edit import Edit
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import KEPT, along_mro, inner

_LONGEST: Final = 60  # characters of a value's text


def location(value: Any) -> str | None:
    """Return ``file:line`` of a function, class, method, property or partial; None if unknown."""
    value = inner(value)
    kind = type(value)
    if issubclass(kind, MethodType):
        return location(value.__func__)
    if issubclass(kind, partial):
        return location(value.func)
    if issubclass(kind, property):
        return location(value.fget)
    if issubclass(kind, FunctionType):
        return f"{value.__code__.co_filename}:{value.__code__.co_firstlineno}"
    if issubclass(kind, type):
        with ErrorsOfCode(OSError, TypeError):  # no source
            return f"{inspect.getsourcefile(value)}:{inspect.findsource(value)[1] + 1}"
        return None
    call = along_mro(kind, "__call__")
    return location(call) if type(call) is FunctionType else None


def in_words(value: Any, depth: int = 2) -> str:
    """Return a short text for a value without running code of the value: plain values as in Python, others by name."""
    kind = type(value)
    if kind in PLAIN:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if kind is Edit:
        return in_words(str(value))
    if kind not in (list, tuple, set, frozenset, dict) or not depth:
        return short_name(value)
    marks = "[]" if kind is list else "()" if kind is tuple else "{}"
    if kind is dict:
        words = [f"{in_words(key, 0)}: {in_words(entry, depth - 1)}" for key, entry in list(value.items())[:5]]
    else:
        words = [in_words(entry, depth - 1) for entry in list(value)[:5]]
    return f"{marks[0]}{', '.join(words + ['…'] * (len(value) > 5))}{marks[1]}"


def short_name(value: Any) -> str:
    """Return the address of an object, else its type with an article; no code of the object runs."""
    value = inner(value)
    kind = type(value)
    if issubclass(kind, MethodType):
        return short_name(value.__func__)
    if issubclass(kind, property) and type(value.fget) is FunctionType:
        return describe(value.fget)
    if issubclass(kind, (type, FunctionType, ModuleType)):
        return describe(value)
    if isinstance(along_mro(kind, "__wrapped__"), KEPT):
        return short_name(AttributeSlot(value, "__wrapped__").read())
    if isinstance(along_mro(kind, "__qualname__"), KEPT) and isinstance(along_mro(kind, "__self__"), KEPT):
        home = getattr(value, "__module__", None) or type(value.__self__).__module__  # a function written in C
        return f"{home}:{value.__qualname__}"
    if isinstance(along_mro(kind, "__objclass__"), KEPT):
        return f"{describe(value.__objclass__)}.{value.__name__}"
    return f"{a_kind(value).split()[0]} {describe(kind)}" if kind.__module__ != "builtins" else describe(value)
