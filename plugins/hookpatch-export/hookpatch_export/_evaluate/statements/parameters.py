"""Bind the arguments of a call to parameters."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.join import join
from hookpatch_export._values.value import ANY, EMPTY, UNKNOWN, Args, Keywords, Seq, Table, Value, value_of


def bind(arguments: ast.arguments, args: Args, named: Keywords, defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Return the variables that a call begins with.

    Args:
        arguments: the function's parameters.
        args: the positional arguments; more than the function takes are left out.
        named: the keyword arguments.
        defaults: the values of parameters without an argument.
    """
    positional = [parameter.arg for parameter in (*arguments.posonlyargs, *arguments.args)]
    unbound = dict(named)
    any_value = unbound.pop(ANY, None)
    variables = dict(zip(positional, args, strict=False))
    for name in [*positional[len(variables) :], *(parameter.arg for parameter in arguments.kwonlyargs)]:
        if name in unbound:
            variables[name] = unbound.pop(name)
        else:
            default = defaults.get(name, UNKNOWN)
            variables[name] = default if any_value is None else join([default, any_value])
    for name in positional:
        unbound.pop(name, None)
    if arguments.vararg is not None:
        surplus = args[len(positional) :]
        variables[arguments.vararg.arg] = Seq(tuple(surplus), join(surplus) if surplus else EMPTY)
    if arguments.kwarg is not None:
        variables[arguments.kwarg.arg] = Table(tuple(unbound.items()), any_value)
    return variables


def defaults_of(function: FunctionType) -> dict[str, Value]:
    """Return the defaults of a function's parameters by name."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    positional_defaults = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    return {
        name: value_of(default, Kind.SAFE)
        for name, default in {**positional_defaults, **(function.__kwdefaults__ or {})}.items()
    }
