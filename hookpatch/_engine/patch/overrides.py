"""Find the subclasses that override a method and do not call it: a patch of the method has no effect on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.describe import describe

_MOST: Final = 3  # named, and the others counted
_subclasses: Final = type.__dict__["__subclasses__"]


def overriding(module: str, path: Sequence[str], name: str) -> str:
    """Return which subclasses override a method without a call of it, in words; empty if none does.

    Args:
        module: the module of the class that has the method.
        path: the names from the module to the class.
        name: the method's name.

    A method that names ``super``, or a base class, and the method itself counts as one that calls it.
    """
    owner: Any = imports.loaded(module)
    for step in path:
        owner = None if owner is None else vars(owner).get(step)
    if not isinstance(owner, type) or not isinstance(_function(vars(owner).get(name)), FunctionType):
        return ""
    found = sorted({describe(cls) for cls in _below(owner) if _overrides(cls, owner, name)})
    if not found:
        return ""
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"without effect on what overrides it and does not call it: {', '.join(found[:_MOST])}{more}"


def _below(owner: type) -> Iterator[type]:
    """Yield all subclasses of a class, each once."""
    seen, waiting = {owner}, [owner]
    while waiting:
        for cls in _subclasses(waiting.pop()):
            if cls not in seen:
                seen.add(cls)
                waiting.append(cls)
                yield cls


def _overrides(cls: type, owner: type, name: str) -> bool:
    function = _function(vars(cls).get(name))
    if not isinstance(function, FunctionType):
        return False
    names = _names_in(function.__code__)
    bases = {base.__name__ for base in cls.__mro__[1 : cls.__mro__.index(owner) + 1]}
    return not (name in names and names & {"super", *bases})


def _function(value: Any) -> Any:
    """Return the function of a static or class method, and beneath wrappers that tell what they wrap."""
    value = getattr(value, "__func__", value)
    while isinstance(value, FunctionType) and "__wrapped__" in vars(value):
        value = vars(value)["__wrapped__"]
    return value


def _names_in(code: CodeType) -> set[str]:
    inside = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inside)
