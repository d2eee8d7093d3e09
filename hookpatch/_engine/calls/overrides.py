"""Find the subclasses that override a method without a call of the method: a patch has no effect in these classes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from types import FunctionType
from typing import Any

from hookpatch._engine.calls.kept import names_in


def overriding(owner: type, name: str, subclasses: Iterable[type]) -> list[type]:
    """Return the subclasses that override a method of a class without a call of the method.

    Args:
        owner: the class that has the method.
        name: the method's name.
        subclasses: the subclasses to search.

    An override counts as calling the method if the override names ``super`` or a base class, and the method's name.
    """
    if not isinstance(_function(vars(owner).get(name)), FunctionType):
        return []
    return [cls for cls in subclasses if cls is not owner and _overrides(cls, owner, name)]


def _overrides(cls: type, owner: type, name: str) -> bool:
    function = _function(vars(cls).get(name))
    if not isinstance(function, FunctionType):
        return False
    names = {*names_in(function.__code__)}
    between = takewhile(lambda base: base is not owner, cls.__mro__[1:])
    return not (name in names and names & {"super", owner.__name__, *(base.__name__ for base in between)})


def _function(value: Any) -> Any:
    """Return the function of a static or class method, without wrappers that have ``__wrapped__``."""
    value = getattr(value, "__func__", value)
    while isinstance(value, FunctionType) and "__wrapped__" in vars(value):
        value = vars(value)["__wrapped__"]
    return value
