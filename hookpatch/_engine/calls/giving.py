"""Wrappers that pass arguments to calls: of ``inject``, which overrides the caller, and of ``default``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, TypeAlias

from hookpatch._engine.calls.trampoline import Wrapper

# Returns True for the injected value; gets a value, and the object of a method's call.
Test: TypeAlias = Callable[[Any, Any], bool]
# An argument that other layers inject: its name, the tests, and an object that is true while one of the layers injects.
Given: TypeAlias = tuple[str, Sequence[Test], object]


def injecting(
    arguments: Mapping[str, Any], parameters: Sequence[Parameter], before: int, outside: Sequence[Given]
) -> Wrapper:
    """Return a wrapper that injects arguments, except arguments that an outer layer has injected in the same call.

    Args:
        arguments: the values by name.
        parameters: the parameters of the callee, without the object of a method's call.
        before: the number of positional arguments before the parameters: 1 for a method, else 0.
        outside: the arguments that outer layers inject.
    """
    by_place = [
        (place, parameter.name, parameter.kind is Parameter.POSITIONAL_ONLY)
        for place, parameter in enumerate(parameters, before)
        if parameter.name in arguments
        and parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]

    # Most calls have fewer positional arguments than `least`, so no positional argument changes.
    least = min((place + 1 - positional_only for place, _, positional_only in by_place), default=sys.maxsize)

    def present(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        by_name = [kwargs[name]] if name in kwargs else []
        return by_name + [
            args[place] for place, parameter_name, _ in by_place if parameter_name == name and place < len(args)
        ]

    def injected(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = {name: _fresh(value) for name, value in arguments.items()}
        for name, tests, is_on in outside:
            # Ask for the value: a call that began before the other layer was applied comes without the injected value.
            method_object = args[0] if before and args else None
            passed = present(name, args, kwargs)
            if any(is_injected(value, method_object) for value in passed for is_injected in tests) and is_on:
                del values[name]
        if len(args) < least:
            return wrapped(*args, **{**kwargs, **values})
        placed = list(args)
        for place, name, positional_only in by_place:
            if name not in values:
                continue
            if place < len(placed):
                placed[place] = values.pop(name)
            elif positional_only and place == len(placed):
                placed.append(values.pop(name))
        return wrapped(*placed, **{**kwargs, **values})

    if outside or any(_fresh(value) is not value for value in arguments.values()):
        return injected

    def added(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Most calls pass no argument to override, and no value needs a copy: this way is a tenth faster.
        if kwargs or len(args) >= least:
            return injected(wrapped, instance, args, kwargs)
        return wrapped(*args, **arguments)

    return added


def defaulting(arguments: Mapping[str, Any], parameters: Sequence[Parameter], before: int) -> Wrapper:
    """Return a wrapper that passes the arguments that a call leaves out, by place or by keyword."""
    places = {
        parameter.name: place
        for place, parameter in enumerate(parameters, before)
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    }
    only = [parameter for parameter in parameters if parameter.kind is Parameter.POSITIONAL_ONLY]
    by_place = [parameter.name for parameter in only if parameter.name in arguments]
    by_keyword = [name for name in arguments if name not in by_place]

    def defaulted(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        count = len(args)
        values = {
            name: _fresh(arguments[name])
            for name in by_keyword
            if name not in kwargs and places.get(name, count) >= count
        }
        if by_place and places[by_place[-1]] >= count:
            args = _filled(args, only[max(count - before, 0) : places[by_place[-1]] - before + 1], arguments)
        return wrapped(*args, **kwargs, **values)

    return defaulted


def _filled(args: tuple[Any, ...], lacking: Sequence[Parameter], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments by place, with each lacking argument: the given value, or the parameter's default."""
    filled = [
        _fresh(values[parameter.name]) if parameter.name in values else parameter.default for parameter in lacking
    ]
    # Without a required argument the call fails as the original's does.
    return args if any(value is Parameter.empty for value in filled) else (*args, *filled)


def _fresh(value: Any) -> Any:
    """Return a copy of built-in containers; other values, such as tensors and models, are not copied."""
    if type(value) is dict:
        return {key: _fresh(entry) for key, entry in value.items()}
    if type(value) in (list, set):
        return type(value)(map(_fresh, value))
    return value
