"""Evaluate arithmetic and comparison."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.join import join, known_start, sequence
from hookpatch_export._values.questions import (
    all_known,
    alternatives,
    content_kind,
    has_tensor,
    is_none,
    objects,
    truth,
    truth_kind,
)
from hookpatch_export._values.tensor_sizes import tensor_like
from hookpatch_export._values.value import (
    CONFIG,
    NONE,
    SAFE,
    Choice,
    Known,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    TrueIn,
    Unknown,
    Value,
)

_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_MOST_TIMES: Final = 8  # a tuple multiplied by more is not written out


def binary(op: ast.operator, left: Value, right: Value) -> Value:
    """Return the result of an arithmetic operator."""
    both = (left, right)
    if all_known(both):
        try:
            return Known(_OPERATORS[type(op)](*objects(both)), max(map(truth_kind, both)))
        except Exception:
            return CONFIG
    match left, right:
        case Choice(), _ if has_tensor(left) and not _only_tensors(left):
            return join(binary(op, one, right) for one in left.among if one != NONE)
        case _, Choice() if has_tensor(right) and not _only_tensors(right):
            return join(binary(op, left, one) for one in right.among if one != NONE)
        case TrueIn(), TrueIn():
            if isinstance(op, ast.BitOr):
                return TrueIn(left.modes | right.modes)
            if isinstance(op, ast.BitAnd):
                return TrueIn(left.modes & right.modes)
        case (TrueIn() as question, other) | (other, TrueIn() as question):
            if isinstance(op, ast.BitOr) and truth(other) is False:
                return question
            if isinstance(op, ast.BitAnd) and truth(other) is True:
                return question
            return Scalar(truth_kind(other))
        case Seq(), Seq() if isinstance(op, ast.Add):
            if left.items is not None and right.items is not None:
                return sequence([*left.items, *right.items])
            start = (*left.items, *known_start(right)) if left.items is not None else left.start
            return Seq(None, join([left.each, right.each]), max(left.length, right.length), start)
        case (Size(), _) | (_, Size()):
            last = right.last if isinstance(right, Size) else last_kind(right)
            return Size(max(map(content_kind, both)), last)
        case (Seq() as several, number) | (number, Seq() as several) if isinstance(op, ast.Mult):
            times = number.obj if isinstance(number, Known) else None
            if several.items and isinstance(times, int) and times <= _MOST_TIMES:
                return sequence(several.items * times)
            return Seq(None, several.each, max(several.length, truth_kind(number)))
    if any(map(has_tensor, both)):
        tensor = tensor_like(left, right)
        if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) or not all(map(has_tensor, both)):
            return tensor
        last = right.last if isinstance(op, ast.MatMult) and isinstance(right, Tensor) else tensor.last
        return Tensor(tensor.sizes, last, False, tensor.rank, tensor.values)
    if isinstance(left, Known) and isinstance(left.obj, str):
        return Scalar(content_kind(right))
    kind = max(map(truth_kind, both))
    return Unknown(kind) if any(isinstance(one, Unknown) for one in both) else Scalar(kind)


def last_kind(given: Value) -> Kind:
    """Return the kind of the last of several sizes."""
    if isinstance(given, Seq) and given.items:
        return max(Kind.CONFIG, truth_kind(given.items[-1]))
    return max(Kind.CONFIG, content_kind(given))


def unary(op: ast.unaryop, given: Value) -> Value:
    """Return the result of a sign or ``~``."""
    if isinstance(given, Known) and isinstance(given.obj, int | float):
        try:
            return Known(_OPERATORS[type(op)](given.obj), given.kind)
        except Exception:
            return CONFIG
    return given


def comparison(frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Return the result of one comparison; ``in`` a tensor is a finding.

    Args:
        frame: the frame to evaluate in.
        node: the comparison, or the whole chain of comparisons.
        op: its operator.
        left: the value on the left.
        right: the value on the right.
    """
    if isinstance(op, ast.Is | ast.IsNot):
        return _identical(isinstance(op, ast.Is), left, right)
    if isinstance(op, ast.In | ast.NotIn):
        return _contained(frame, node, isinstance(op, ast.In), left, right)
    both = (left, right)
    if all_known(both):
        try:
            return Known(bool(_OPERATORS[type(op)](*objects(both))), max(map(truth_kind, both)))
        except Exception:
            return CONFIG
    if any(isinstance(one, Tensor) for side in both for one in alternatives(side)):
        tensor = tensor_like(left, right)
        return Tensor(tensor.sizes, tensor.last, True, tensor.rank, tensor.values)
    return Scalar(max(map(content_kind, both)))


def _identical(same: bool, left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if is_none(other):
            none = is_none(one)
            kind = one.kind if isinstance(one, Known) else Kind.SAFE
            return SAFE if none is None else Known(none is same, kind)
    if isinstance(left, Known) and isinstance(right, Known):
        return Known((left.obj is right.obj) is same, max(left.kind, right.kind))
    return SAFE


def _contained(frame: Frame, node: ast.Compare, inside: bool, left: Value, right: Value) -> Value:
    if isinstance(left, Known) and isinstance(right, Known):
        try:
            return Known((left.obj in right.obj) is inside, max(left.kind, right.kind))
        except Exception:
            return CONFIG
    if isinstance(left, Known) and isinstance(right, Seq) and right.items is not None:
        items = right.items
        if all(isinstance(one, Known) for one in items):
            return Known(any(one.same_object(left) for one in items if isinstance(one, Known)) is inside, left.kind)
    if isinstance(right, Table):
        keys = dict(right.items)
        if isinstance(left, Known) and isinstance(left.obj, str) and (left.obj in keys or right.each is None):
            return SAFE if left.obj in keys else Known(not inside)
        return SAFE if truth_kind(left) < Kind.SHAPE else Scalar(truth_kind(left))
    kind = max(content_kind(left), content_kind(right))
    if has_tensor(left) or has_tensor(right):
        frame.report(node, "in", Kind.DATA)
        return Scalar(Kind.DATA)
    return Scalar(kind)


def _only_tensors(value: Choice) -> bool:
    return all(isinstance(one, Tensor) for one in value.among)
