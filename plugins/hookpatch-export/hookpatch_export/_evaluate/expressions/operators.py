"""Evaluate arithmetic and comparison."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.join import concatenated, join, sequence
from hookpatch_export._values.questions import (
    all_known,
    alternatives,
    content_kind,
    has_tensor,
    is_mapping,
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


def binary(frame: Frame, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
    """Return the result of an arithmetic operator; a list as long as a size or a tensor says is a finding.

    Args:
        frame: the frame to evaluate in.
        node: the operation.
        left: the value on the left.
        right: the value on the right.
    """
    op = node.op
    operands = (left, right)
    if all_known(operands):
        try:
            return Known(_OPERATORS[type(op)](*objects(operands)), max(map(truth_kind, operands)))
        except Exception:
            return CONFIG
    match left, right:
        case Choice(), _ if has_tensor(left) and not _only_tensors(left):
            return join(binary(frame, node, alternative, right) for alternative in left.among if alternative != NONE)
        case _, Choice() if has_tensor(right) and not _only_tensors(right):
            return join(binary(frame, node, left, alternative) for alternative in right.among if alternative != NONE)
        case TrueIn(), TrueIn():
            if isinstance(op, ast.BitOr):
                return TrueIn(left.modes | right.modes)
            if isinstance(op, ast.BitAnd):
                return TrueIn(left.modes & right.modes)
        case (TrueIn() as question, operand) | (operand, TrueIn() as question):
            if isinstance(op, ast.BitOr) and truth(operand) is False:
                return question
            if isinstance(op, ast.BitAnd) and truth(operand) is True:
                return question
            if isinstance(op, ast.BitOr | ast.BitAnd) and isinstance(operand, Known) and type(operand.obj) is bool:
                return operand  # True | x, False & x
            return Scalar(truth_kind(operand))
        case Seq(), Seq() if isinstance(op, ast.Add):
            return concatenated(left, right)
        case (Size(), _) | (_, Size()):
            last = right.last if isinstance(right, Size) else last_kind(right)
            return Size(max(map(content_kind, operands)), last)
        case (Seq() as several, number) | (number, Seq() as several) if isinstance(op, ast.Mult):
            times = number.obj if isinstance(number, Known) else None
            if several.items and isinstance(times, int) and times <= _MOST_TIMES:
                return sequence(several.items * times)
            if (kind := truth_kind(number)) >= Kind.SHAPE:
                frame.report(node, "list * n", kind)
            return Seq(None, several.each, several.length)
    if any(map(has_tensor, operands)):
        tensor = tensor_like(left, right)
        if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) or not all(map(has_tensor, operands)):
            return tensor
        last = right.last if isinstance(op, ast.MatMult) and isinstance(right, Tensor) else tensor.last
        return Tensor(tensor.sizes, last, False, tensor.rank, tensor.values)
    if isinstance(left, Known) and isinstance(left.obj, str):
        return Scalar(content_kind(right))
    kind = max(map(truth_kind, operands))
    return Unknown(kind) if any(isinstance(operand, Unknown) for operand in operands) else Scalar(kind)


def last_kind(sizes: Value) -> Kind:
    """Return the kind of the last of several sizes."""
    if isinstance(sizes, Seq) and sizes.items:
        return max(Kind.CONFIG, truth_kind(sizes.items[-1]))
    return max(Kind.CONFIG, content_kind(sizes))


def unary(op: ast.unaryop, operand: Value) -> Value:
    """Return the result of a sign or ``~``."""
    if isinstance(operand, Known) and isinstance(operand.obj, int | float):
        try:
            return Known(_OPERATORS[type(op)](operand.obj), operand.kind)
        except Exception:
            return CONFIG
    return operand


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
    operands = (left, right)
    if all_known(operands):
        try:
            return Known(bool(_OPERATORS[type(op)](*objects(operands))), max(map(truth_kind, operands)))
        except Exception:
            return CONFIG
    if any(isinstance(alternative, Tensor) for side in operands for alternative in alternatives(side)):
        tensor = tensor_like(left, right)
        return Tensor(tensor.sizes, tensor.last, True, tensor.rank, tensor.values)
    return Scalar(max(map(content_kind, operands)))


def _identical(expected: bool, left: Value, right: Value) -> Value:
    for operand, reference in ((left, right), (right, left)):
        if is_none(reference):
            none = is_none(operand)
            kind = operand.kind if isinstance(operand, Known) else Kind.SAFE
            return SAFE if none is None else Known(none is expected, kind)
    if isinstance(left, Known) and isinstance(right, Known):
        return Known((left.obj is right.obj) is expected, max(left.kind, right.kind))
    return SAFE


def _contained(frame: Frame, node: ast.Compare, inside: bool, left: Value, right: Value) -> Value:
    if isinstance(left, Known) and isinstance(right, Known):
        try:
            return Known((left.obj in right.obj) is inside, max(left.kind, right.kind))
        except Exception:
            return CONFIG
    if isinstance(left, Known) and isinstance(right, Seq) and right.items is not None:
        items = right.items
        if all(isinstance(item, Known) for item in items):
            return Known(any(item.same_object(left) for item in items if isinstance(item, Known)) is inside, left.kind)
    if isinstance(right, Table):
        keys = dict(right.items)
        if isinstance(left, Known) and isinstance(left.obj, str) and (left.obj in keys or right.each is None):
            return SAFE if left.obj in keys else Known(not inside)
    if all(map(is_mapping, alternatives(right))):  # the keys are compared, and no value
        kind = content_kind(left) if isinstance(left, Seq) else truth_kind(left)
        return SAFE if kind < Kind.SHAPE else Scalar(kind)
    kind = max(content_kind(left), content_kind(right))
    if has_tensor(left) or has_tensor(right):
        frame.report(node, "in", Kind.DATA)
        return Scalar(Kind.DATA)
    return Scalar(kind)


def _only_tensors(value: Choice) -> bool:
    return all(isinstance(alternative, Tensor) for alternative in value.among)
