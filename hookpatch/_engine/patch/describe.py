"""Return how a message names an object. No code of the object runs: no property, no lazy module's loader."""

from __future__ import annotations

from types import FunctionType, ModuleType, NoneType
from typing import Any, Final

PLAIN: Final = (str, bytes, int, float, complex, bool, NoneType)  # types whose repr is their value, and short to print

_NAMESPACE: Final = vars(ModuleType)["__dict__"]  # a plain look at an attribute would load a lazy module
_MODULE: Final[Any] = vars(type)["__module__"]
_QUALNAME: Final[Any] = vars(type)["__qualname__"]


def describe(thing: object) -> str:
    """Return the address of a module, class or function; of any other object its type and its id."""
    kind: type = type(thing)  # isinstance() would ask the object for __class__
    if issubclass(kind, ModuleType):
        return str(_NAMESPACE.__get__(thing).get("__name__"))
    if issubclass(kind, type):
        return f"{_MODULE.__get__(thing)}:{_QUALNAME.__get__(thing)}"
    if type(thing) is FunctionType:
        return f"{thing.__module__}:{thing.__qualname__}"
    return f"<{_QUALNAME.__get__(kind)} object at {id(thing):#x}>"


def a_kind(thing: object) -> str:
    """Return the type's name of an object with its article: ``a dict``, ``an int``."""
    name = type(thing).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
