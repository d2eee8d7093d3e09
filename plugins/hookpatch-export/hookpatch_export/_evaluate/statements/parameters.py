"""Bind arguments to parameters: in a call, and in a model's ``forward``, which is called from outside."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.join import join
from hookpatch_export._values.value import (
    CONFIG,
    EMPTY,
    NONE,
    UNKNOWN,
    Args,
    Instance,
    Keywords,
    Scalar,
    Seq,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)


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
    variables = dict(zip(positional, args, strict=False))
    for name in [*positional[len(variables) :], *(parameter.arg for parameter in arguments.kwonlyargs)]:
        variables[name] = unbound.pop(name) if name in unbound else defaults.get(name, UNKNOWN)
    for name in positional:
        unbound.pop(name, None)
    if arguments.vararg is not None:
        surplus = args[len(positional) :]
        variables[arguments.vararg.arg] = Seq(tuple(surplus), join(surplus) if surplus else EMPTY)
    if arguments.kwarg is not None:
        variables[arguments.kwarg.arg] = Table(tuple(unbound.items()))
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


def forward_arguments(function: FunctionType) -> tuple[list[Value], dict[str, Value]]:
    """Return values for the arguments of a model's ``forward``, from annotations and defaults, without ``self``.

    A parameter with neither is a tensor.
    """
    try:
        parameters = list(inspect.signature(function, follow_wrapped=True).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    hints = _hints(inspect.unwrap(function))
    args: list[Value] = []
    named: dict[str, Value] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if parameter.kind is parameter.VAR_POSITIONAL and not named:
                args.append(Tensor())
            continue
        value = _from_hint(hints.get(parameter.name, parameter.annotation), parameter.default)
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            args.append(value)
    return args, named


def _hints(function: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # a name that is imported for type checkers alone
        return dict(getattr(function, "__annotations__", {}))


def _from_hint(hint: Any, default: Any) -> Value:
    if hint is inspect.Parameter.empty or hint is Any:
        return _from_default(default)
    value = _of_hint(hint)
    return join([NONE, value]) if default is None else value


def _from_default(default: Any) -> Value:
    if default is inspect.Parameter.empty:
        return Tensor()
    if default is None:
        return join([NONE, Tensor()])
    return CONFIG if isinstance(default, bool | int | float | str) else value_of(default)


def _of_hint(hint: Any) -> Value:
    if isinstance(hint, str):
        return _of_text(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is types.UnionType:
        return join([NONE if part is type(None) else _of_hint(part) for part in parts])
    if origin is typing.Annotated:
        return _of_hint(parts[0])
    if origin in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        if origin is tuple and Ellipsis not in parts:
            return Seq(tuple(map(_of_hint, parts)), join(map(_of_hint, parts)) if parts else Tensor())
        return Seq(None, _of_hint(parts[0]) if parts else Tensor(), Kind.CONFIG)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Table((), _of_hint(parts[1]) if len(parts) > 1 else Tensor())
    if hint in (int, float, bool, str, torch.dtype, torch.device) or origin is typing.Literal:
        return Scalar(Kind.CONFIG)
    if hint in (tuple, list):
        return Seq(None, Tensor(), Kind.CONFIG)
    if hint is dict:
        return Table((), Tensor())
    if "Tensor" in getattr(hint, "__name__", "") or "Tensor" in str(hint):
        return Tensor()
    return Instance(hint) if isinstance(hint, type) else Unknown(Kind.CONFIG)


def _of_text(hint: str) -> Value:
    """Return the value for an annotation that can only be read as text."""
    values: list[Value] = [NONE] if "None" in hint or "Optional" in hint else []
    if "Tensor" in hint:
        several = any(word in hint for word in ("tuple[", "list[", "Tuple[", "List["))
        values.append(Seq(None, Tensor(), Kind.CONFIG) if several else Tensor())
    elif any(word in hint for word in ("int", "bool", "float", "str")):
        values.append(CONFIG)
    return join(values) if values and values != [NONE] else Unknown(Kind.CONFIG)
