"""Return how a message names an object. No code of the object runs: no property, no lazy module's loader."""

from __future__ import annotations

from types import FunctionType, ModuleType, NoneType
from typing import Any, Final
from weakref import ReferenceType

PLAIN: Final = (str, bytes, int, float, complex, bool, NoneType)  # types whose repr is their value, and short to print

_NAMESPACE: Final = vars(ModuleType)["__dict__"]  # a plain look at an attribute would load a lazy module
_MODULE: Final[Any] = vars(type)["__module__"]
_QUALNAME: Final[Any] = vars(type)["__qualname__"]


def describe(value: object) -> str:
    """Return the address of a module, class or function; of any other object its type and its id."""
    kind: type = type(value)  # isinstance() would ask the object for __class__
    if issubclass(kind, ModuleType):
        return str(_NAMESPACE.__get__(value).get("__name__"))
    if issubclass(kind, type):
        return f"{_MODULE.__get__(value)}:{_QUALNAME.__get__(value)}"
    if type(value) is FunctionType:
        return f"{value.__module__}:{value.__qualname__}"
    return f"<{_QUALNAME.__get__(kind)} object at {id(value):#x}>"


def describe_key(key: object) -> str:
    """Return a key in words, of a weak key the object behind; the key's own repr may be foreign code."""
    key = key() if type(key) is ReferenceType else key
    return repr(key) if type(key) in PLAIN else describe(key)


def a_kind(value: object) -> str:
    """Return the type's name of an object with its article: ``a dict``, ``an int``."""
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
