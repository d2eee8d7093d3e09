"""Return values for the arguments of a model's ``forward``: of given inputs, or from annotations and defaults."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any, Final

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.join import join, sequence
from hookpatch_export._values.value import (
    CONFIG,
    NONE,
    Instance,
    Known,
    Scalar,
    Seq,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_SETTINGS: Final = (bool, int, float, str)


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


def given_arguments(
    function: FunctionType, inputs: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Value], dict[str, Value]] | None:
    """Return values for the arguments of a call of ``forward``, without ``self``; None if the inputs do not fit.

    A captured model gets other numbers and sizes of a tensor. The rest is the same in each call of the captured
    model: the rank, numbers and texts, the presence of an argument. An object of another class, a cache for example,
    may change between calls: its attributes are not known.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=True)
        _, *parameters = signature.parameters.values()
        signature.bind(None, *inputs, **keywords)
    except (TypeError, ValueError):
        return None
    named = {name: _given(argument) for name, argument in keywords.items()}
    omitted = [parameter for parameter in parameters[len(inputs) :] if parameter.name not in keywords]
    settings = {parameter.name: parameter.default for parameter in omitted if isinstance(parameter.default, _SETTINGS)}
    return [*map(_given, inputs)], {name: Known(default, Kind.CONFIG) for name, default in settings.items()} | named


def _given(argument: Any) -> Value:
    """Return the value of an input."""
    match argument:
        case None:
            return NONE
        case torch.nn.Parameter():
            return value_of(argument)
        case torch.Tensor():
            return Tensor(truth=argument.dtype == torch.bool, rank=argument.dim())
        case bool() | int() | float() | complex() | str() | torch.dtype() | torch.device() | FunctionType():
            return Known(argument, Kind.CONFIG)
        case tuple() if hasattr(argument, "_fields"):
            return Instance(type(argument), dict(zip(argument._fields, map(_given, argument), strict=True)))
        case tuple() | list():
            return sequence(map(_given, argument))
        case Mapping():
            return Table(tuple((key, _given(value)) for key, value in argument.items()))
    return _of_hint(type(argument))


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
    return CONFIG if isinstance(default, _SETTINGS) else value_of(default)


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
