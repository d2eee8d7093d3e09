"""A patch of a method that holds for some instances: in the slot of the class, and each call asks for whom it is.

An entry in the ``__dict__`` of each instance would hold the instance: a cycle, which only the collector ends. If held
weakly, the instance of ``m.Class().method()`` would be dead when the method runs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from hookpatch._engine.calls.trampoline import Trampoline
from hookpatch._engine.instances.meant import IsMeant
from hookpatch._engine.patch.patch import MAKING_VERBS, Patch, Wrapper
from hookpatch._engine.slots.slot import inner


def goes_into_class(patch: Patch) -> bool:
    """Return True if a patch of a method goes into the class: what it puts there takes the instance of each call."""
    return patch.is_around_calls or patch.verb in MAKING_VERBS or type(patch.change) is FunctionType


def only_for(is_meant: IsMeant, wrapper: Wrapper) -> Wrapper:
    """Return a wrapper that passes through for an instance that is not meant."""

    def asking(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The wrapper of inject gets the instance as the first argument.
        if is_meant(args[0] if instance is None and args else instance):
            return wrapper(wrapped, instance, args, kwargs)
        return wrapped(*args, **kwargs)

    return asking


def either(is_meant: IsMeant, below: Any, value: Any) -> Any:
    """Return a function that calls ``value`` for an instance that is meant, and ``below`` for any other."""

    def choosing(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and is_meant(args[0]):
            return bound(args[0])(*args[1:], **kwargs)
        return wrapped(*args, **kwargs)

    bind = getattr(type(value), "__get__", None)
    if isinstance(value, staticmethod) or bind is None:
        bound: Callable[[Any], Any] = lambda thing: inner(value)  # noqa: E731
    else:
        bound = lambda thing: bind(value, thing, type(thing))  # noqa: E731
    like = next(one for one in (inner(below), inner(value)) if type(one) is FunctionType)
    trampoline = Trampoline(like, below, binds=True)
    trampoline.point(choosing, below)
    return trampoline.function
