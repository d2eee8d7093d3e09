"""Evaluate built-in functions that turn a size or a tensor into a number or a truth value."""

from __future__ import annotations

import ast
from typing import Any

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import (
    all_known,
    alternatives,
    content_kind,
    has_tensor,
    objects,
    truth,
    truth_kind,
)
from hookpatch_export._values.tensor_sizes import values_of
from hookpatch_export._values.value import (
    CONFIG,
    SAFE,
    Args,
    Keywords,
    Known,
    Scalar,
    Seq,
    Size,
    Tensor,
    Unknown,
    Value,
)


def number(frame: Frame, node: ast.AST, function: Any, args: Args, named: Keywords) -> Value:
    """Return the result of ``int``, ``min``, ``sum`` and the like; a number made of a tensor or a size is a finding.

    Args:
        frame: the frame of the caller.
        node: the call.
        function: the builtin.
        args: the positional arguments.
        named: the keyword arguments.
    """
    if all_known([*args, *named.values()]) and function is not hash:
        try:
            return Known(function(*objects(args)), Kind.CONFIG)
        except Exception:
            return CONFIG
    if function in (sum, abs, pow) and any(map(has_tensor, args)):
        return Tensor(max(map(content_kind, args)))
    kind = max((number_kind(arg) for arg in args), default=Kind.CONFIG)
    computes = function in (sum, abs, pow, divmod, round) and kind is not Kind.DATA
    if kind >= Kind.SHAPE and (not computes or any(map(has_tensor, args))):
        frame.report(node, f"{function.__name__}()", kind)
    return Scalar(kind)


def number_kind(value: Value) -> Kind:
    """Return the kind of a number made of a value, or of the values in a container."""
    if isinstance(value, Seq | Size):
        return max(content_kind(value), values_of([value]) if has_tensor(value) else Kind.SAFE)
    return max(truth_kind(alternative) for alternative in alternatives(value))


def any_or_all(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    """Return the result of ``any`` or ``all``."""
    if not args:
        return SAFE
    if isinstance(args[0], Seq) and args[0].items is not None:
        outcomes = [truth(item) for item in args[0].items]
        if None not in outcomes:
            return Known(function(outcomes), max(map(truth_kind, args[0].items), default=Kind.SAFE))
    kind = number_kind(args[0])
    if kind >= Kind.SHAPE:
        frame.report(node, f"{function.__name__}()", kind)
    return Scalar(kind)


def length_of(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the result of ``len``; of a tensor's length Python makes a number."""
    outcomes: list[Value] = []
    for alternative in alternatives(value):
        match alternative:
            case Known(obj=obj) if isinstance(obj, str | bytes | tuple | list | dict | set | frozenset):
                outcomes.append(Known(len(obj), alternative.kind))
            case Known(obj=obj) if hasattr(obj, "_modules"):
                outcomes.append(Known(len(obj._modules), Kind.CONFIG))
            case Seq(items=items) if items is not None:
                outcomes.append(Known(len(items)))
            case Seq():
                outcomes.append(Scalar(max(alternative.length, Kind.CONFIG)))
            case Tensor():
                if alternative.sizes >= Kind.SHAPE:
                    frame.report(node, "len()", alternative.sizes)
                outcomes.append(Scalar(alternative.sizes))
            case Unknown():
                outcomes.append(alternative)
            case _:
                outcomes.append(CONFIG)
    return join(outcomes)
