"""A patch of a method for some instances: in the slot of the class, with a test of the instance at each call.

An entry in the ``__dict__`` of each instance would hold the instance: a cycle, which only the collector ends. With a
weak reference the instance of ``m.Class().method()`` would be dead when the method runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, Final, final

from hookpatch._engine.calls.trampoline import Trampoline
from hookpatch._engine.instances.meant import Meant, behind_proxy
from hookpatch._engine.instances.slot import entries
from hookpatch._engine.patch.patch import MAKING_VERBS, Patch, Wrapper
from hookpatch._engine.patch.process_end import call_guarded
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.slot import inner


def goes_into_class(patch: Patch) -> bool:
    """Return True if a patch of a method goes into the class: the patch's value takes the instance of each call."""
    return patch.is_around_calls or patch.verb in MAKING_VERBS or type(patch.change) is FunctionType


@final
class OnlyFor:
    """The only instances for which a layer in the slot of the class is in effect."""

    __slots__ = ("_meant", "_name", "takes")

    def __init__(self, meant: Meant, owner: type, name: str) -> None:
        """Take the instances, and the method ``name`` of the class ``owner``."""
        self._meant: Final = meant
        self._name: Final = name
        is_meant, only = meant.test_for(owner, name), meant.only
        self.takes: Final = (
            is_meant if only is None else lambda value: is_meant(value) and bool(only(behind_proxy(value)))
        )

    def is_for(self, value: Any) -> bool:
        """See ``Only``."""
        return self._meant.takes(value) and (self._meant.only is None or bool(self._meant.only(value)))

    def covers(self, other: OnlyFor) -> bool:
        """See ``Only``."""
        return self._meant.covers(other._meant)

    def meets(self, other: OnlyFor) -> bool:
        """See ``Only``."""
        return self._meant.meets(other._meant)

    def entries(self) -> list[AttributeSlot]:
        """See ``Only``."""
        if self._meant.only is not None:
            return []  # to ask only= is to run foreign code
        return entries(filter(self.takes, self._meant.living()), self._name)

    def around(self, wrapper: Wrapper) -> Wrapper:
        """Return a wrapper that passes calls through for unmeant instances."""
        is_meant = self.takes

        def asking(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # The wrapper of inject gets the instance as the first argument.
            if is_meant(args[0] if instance is None and args else instance):
                return wrapper(wrapped, instance, args, kwargs)
            return wrapped(*args, **kwargs)

        return asking

    def between(self, below: Any, value: Any) -> Any:
        """Return a function that calls ``value`` for a meant instance, and ``below`` for any other."""
        is_meant = self.takes

        def choosing(
            wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if args and is_meant(args[0]):
                return bound(args[0])(*args[1:], **kwargs)
            return wrapped(*args, **kwargs)

        bind = getattr(type(value), "__get__", None)
        if type(value) is FunctionType:
            bound: Callable[[Any], Any] = value.__get__
        elif isinstance(value, staticmethod) or bind is None:
            bound = lambda instance: inner(value)  # noqa: E731 - one of three
        else:
            bound = lambda instance: bind(value, instance, type(instance))  # noqa: E731 - one of three
        like = next(function for function in (inner(below), inner(value)) if type(function) is FunctionType)
        trampoline = Trampoline(like, below, binds=True)
        trampoline.point(choosing, below)
        return trampoline.function


def for_instance(patch: Patch, instance: Any) -> Patch:
    """Return the patch for an instance with an own method: the patch's value is bound to the instance."""
    if patch.is_around_calls:
        return patch
    if patch.verb == "replace":
        return replace(patch, change=MethodType(patch.change, instance))

    def bound_change(own: Any) -> Any:
        if type(own) is MethodType and own.__self__ is instance:
            below: Any = own.__func__
        else:
            below = wraps(own)(lambda self, *args, **kwargs: own(*args, **kwargs))
        value = call_guarded(patch.change, below)
        return MethodType(value, instance) if type(value) is FunctionType else value

    return replace(patch, change=bound_change)
