"""Separate code and other objects from plain values. No code of the value runs."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.slots.slot import ABSENT, along_mro, inner, mro

_name_of_class: Final[Any] = type.__dict__["__name__"].__get__
DESCRIPTORS: Final = (staticmethod, classmethod, property)
DEFINED: Final = (type, FunctionType, BuiltinFunctionType, ModuleType, *DESCRIPTORS)
# Names that Python rewrites at any time, or that a module writes about itself.
OF_PYTHON: Final = frozenset(
    [
        "__builtins__",
        "__spec__",
        "__loader__",
        "__path__",
        "__file__",
        "__cached__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__warningregistry__",
        "__abstractmethods__",
        "_abc_impl",
        "__slotnames__",
        "__parameters__",
        "__module__",
        "__package__",
        "__match_args__",
        "__static_attributes__",
        "__firstlineno__",
        "__type_params__",
        "__conditional_annotations__",
        "__dataclass_fields__",
        "__dataclass_params__",
        *("last_type", "last_value", "last_traceback", "last_exc"),  # of sys: the last error shown by a prompt
    ]
)


def is_code(value: Any) -> bool:
    """Return True for a function, class, descriptor, or any other callable object; no foreign code runs."""
    kind = type(value)
    if value is ABSENT or value is None:
        return False
    if issubclass(kind, (type, *DESCRIPTORS)):
        return True
    return along_mro(kind, "__call__") is not ABSENT or along_mro(kind, "__get__") is not ABSENT


def is_movable(value: Any) -> bool:
    """Return True for values that the standard library never exchanges in itself: code, modules, locks and the like."""
    return value is not ABSENT and (is_code(value) or issubclass(type(value), ModuleType) or is_object(value))


def is_object(value: Any) -> bool:
    """Return True for an object that is neither plain nor a built-in container."""
    return type(value).__module__ != "builtins"


def is_logger(value: Any) -> bool:
    """Return True for a logger: each module asks ``logging`` for its own, perhaps of a foreign class."""
    module = imports.loaded("logging")
    return module is not None and vars(module).get("Logger") in mro(type(value))


def name_of(value: Any) -> str:
    value = inner(value)
    return value.__name__ if type(value) is FunctionType else ""


def bare_name(value: Any) -> str:
    """Return the name of a function or class; no code of the value runs."""
    value = inner(value)
    if issubclass(type(value), type):
        return str(_name_of_class(value))
    return str(value.__name__) if type(value) in (FunctionType, BuiltinFunctionType) else ""
