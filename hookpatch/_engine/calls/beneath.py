"""Make the function that a wrapper calls, where the wrapper cannot call the value beneath directly."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any, Final, cast

from hookpatch._engine.calls.code import Signature

LOOK_UP: Final = "__hookpatch_look_up__"  # the attribute of a function that looks its callee up, for Dynamo
METHODS: Final = (MethodDescriptorType, WrapperDescriptorType)  # of C functions


def calling(value: Callable[..., Any], like: FunctionType) -> FunctionType:
    """Return a function that calls another callable, with the name and signature of ``like``."""

    def below(*args: Any, **kwargs: Any) -> Any:
        return value(*args, **kwargs)

    return cast(FunctionType, wraps(like)(below))


def looking_up(look_up: Callable[[Any, Any], Any] | None, like: FunctionType) -> FunctionType:
    """Return a function that calls a callable looked up at each call, like ``like``; without a look-up ``like``."""
    if look_up is None:
        return like
    with suppress(AttributeError):  # another thread has just removed the name from the class
        look_up(like, None)  # now: Dynamo can trace a look-up only if an earlier look-up has returned the value

    def below(*args: Any, **kwargs: Any) -> Any:
        return look_up(like, None)(*args, **kwargs)

    function = cast(FunctionType, wraps(like)(below))
    vars(function)[LOOK_UP] = look_up
    return function


def inherited(owner: type, name: str, base: Any) -> FunctionType:
    """Return a function that looks an inherited method up at each call: the base class may be patched, too.

    ``base``: what the class inherits under the name: a function, a static or class method, or a method of C.
    """
    like = base.__func__ if isinstance(base, (staticmethod, classmethod)) else base
    if isinstance(base, staticmethod):

        def below(*args: Any, **kwargs: Any) -> Any:
            return getattr(super(owner, owner), name)(*args, **kwargs)
    else:

        def below(*args: Any, **kwargs: Any) -> Any:
            try:
                callee = getattr(super(owner, args[0]), name)
            except (IndexError, TypeError):
                return like(*args, **kwargs)  # called without an object of the class: raise as the original does
            return callee(*args[1:], **kwargs)

    function = cast(FunctionType, below)
    function.__name__, function.__qualname__, function.__doc__ = like.__name__, like.__qualname__, like.__doc__
    function.__module__ = getattr(like, "__module__", None) or owner.__module__
    if isinstance(like, FunctionType):
        vars(function)["__signature__"] = Signature(like)
    else:
        with suppress(TypeError, ValueError):  # a C function without a signature
            vars(function)["__signature__"] = inspect.signature(like)
    return function


def absent(name: str, owner: Any, error: Callable[[], Exception]) -> FunctionType:
    """Return the function under a wrapper that adds a name: nothing is there, and a call raises ``error()``.

    Args:
        name: the new name.
        owner: the module, the class or the object with the new name. In a class a call reaches what a base class has
            under the name at the moment of the call.
        error: makes the error.
    """

    def of_class(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            bases = super(owner, self)
        except TypeError:  # called without an object of the class
            raise error() from None
        if (callee := getattr(bases, name, None)) is None:
            raise error()
        return callee(*args, **kwargs)

    def below(*args: Any, **kwargs: Any) -> Any:
        raise error()

    function = cast(FunctionType, of_class if isinstance(owner, type) else below)
    of = owner if isinstance(owner, type) else type(owner)
    is_of_module = isinstance(owner, ModuleType)
    function.__name__, function.__qualname__ = name, name if is_of_module else f"{of.__qualname__}.{name}"
    function.__module__ = owner.__name__ if is_of_module else of.__module__
    function.__annotations__ = {}
    return function
