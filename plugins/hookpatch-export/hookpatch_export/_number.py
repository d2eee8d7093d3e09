"""Where Python's own functions make a number or a truth value of a size or a tensor."""

from __future__ import annotations

import ast
from typing import Any

from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame
from hookpatch_export._join import join
from hookpatch_export._question import all_known, alternatives, content_kind, has_tensor, objects, truth, truth_kind
from hookpatch_export._sizes import values_of
from hookpatch_export._value import CONFIG, SAFE, Args, Keywords, Known, Scalar, Seq, Size, Tensor, Unknown, Value


def number(frame: Frame, node: ast.AST, function: Any, args: Args, named: Keywords) -> Value:
    """Return what ``int``, ``min``, ``sum`` and the like give; a number made of a tensor or a size is a finding.

    Args:
        frame: where it is called.
        node: the call.
        function: the builtin.
        args: what it gets by position.
        named: what it gets by name.
    """
    if all_known([*args, *named.values()]) and function is not hash:
        try:
            return Known(function(*objects(args)), Kind.CONFIG)
        except Exception:
            return CONFIG
    if function in (sum, abs, pow) and any(map(has_tensor, args)):
        return Tensor(max(map(content_kind, args)))
    kind = max((number_kind(one) for one in args), default=Kind.CONFIG)
    computes = function in (sum, abs, pow, divmod, round) and kind is not Kind.DATA
    if kind >= Kind.SHAPE and (not computes or any(map(has_tensor, args))):
        frame.found(node, f"{function.__name__}()", kind)
    return Scalar(kind)


def number_kind(value: Value) -> Kind:
    """Return what a number hangs on that is made of a value, or of the values in it."""
    if isinstance(value, Seq | Size):
        return max(content_kind(value), values_of([value]) if has_tensor(value) else Kind.SAFE)
    return max(truth_kind(one) for one in alternatives(value))


def any_or_all(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    """Return what ``any`` or ``all`` gives."""
    if not args:
        return SAFE
    if isinstance(args[0], Seq) and args[0].items is not None:
        outcomes = [truth(one) for one in args[0].items]
        if None not in outcomes:
            return Known(function(outcomes), max(map(truth_kind, args[0].items), default=Kind.SAFE))
    kind = number_kind(args[0])
    if kind >= Kind.SHAPE:
        frame.found(node, f"{function.__name__}()", kind)
    return Scalar(kind)


def length_of(value: Value) -> Value:
    """Return what ``len`` gives."""
    outcomes: list[Value] = []
    for one in alternatives(value):
        match one:
            case Known(obj=obj) if isinstance(obj, str | bytes | tuple | list | dict | set | frozenset):
                outcomes.append(Known(len(obj), one.kind))
            case Known(obj=obj) if hasattr(obj, "_modules"):
                outcomes.append(Known(len(obj._modules), Kind.CONFIG))
            case Seq(items=items) if items is not None:
                outcomes.append(Known(len(items)))
            case Seq():
                outcomes.append(Scalar(max(one.length, Kind.CONFIG)))
            case Tensor():
                outcomes.append(Scalar(one.sizes))
            case Unknown():
                outcomes.append(one)
            case _:
                outcomes.append(CONFIG)
    return join(outcomes)
