"""What an expression gives, from what its parts give."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

from hookpatch_export._attribute import attribute, item
from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame
from hookpatch_export._iteration import as_sequence
from hookpatch_export._join import join, sequence, without_none
from hookpatch_export._narrow import narrowed
from hookpatch_export._question import alternatives, content_kind, has_tensor, is_none, truth, truth_kind
from hookpatch_export._sizes import tensor_like
from hookpatch_export._value import (
    CONFIG,
    NONE,
    PLAIN,
    SAFE,
    UNKNOWN,
    Choice,
    During,
    Known,
    Local,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_CASES: Final = 4  # so many cases of a condition are looked at
_SPREAD: Final = 8  # a tuple of unknown length stands for that many arguments; a function takes what it can
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


def value(frame: Frame, node: ast.expr) -> Value:
    """Return what an expression gives, and note what is found in it."""
    match node:
        case ast.Constant():
            return Known(node.value)
        case ast.Name():
            return _name(frame, node.id)
        case ast.Attribute():
            return attribute(frame, node, value(frame, node.value), node.attr)
        case ast.Call():
            return _call(frame, node)
        case ast.BinOp():
            return binary(frame, node, node.op, value(frame, node.left), value(frame, node.right))
        case ast.BoolOp():
            return _either(frame, node, node.values, decides=True)
        case ast.UnaryOp(op=ast.Not()):
            outcome = test(frame, node)
            _decided_here(frame, node, outcome, "not")
            return outcome
        case ast.UnaryOp():
            return _unary(node.op, value(frame, node.operand))
        case ast.Compare():
            return _compare(frame, node)
        case ast.IfExp():
            return _ternary(frame, node)
        case ast.Subscript():
            return item(frame, node, value(frame, node.value), value(frame, node.slice))
        case ast.Slice():
            return _slice(frame, node)
        case ast.Tuple() | ast.List():
            return _sequence(frame, node.elts)
        case ast.Set():
            return Seq(None, join([value(frame, one) for one in node.elts]))
        case ast.Dict():
            return _dict(frame, node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return _comprehension(frame, node)
        case ast.Lambda():
            return Local(node, frame, default_values(frame, node.args))
        case ast.NamedExpr():
            result = value(frame, node.value)
            frame.variables[node.target.id] = result
            return result
        case ast.JoinedStr():
            return _text(frame, node)
        case ast.Starred():
            return value(frame, node.value)
        case ast.Await():
            return value(frame, node.value)
        case ast.Yield():
            frame.yielded.append(value(frame, node.value) if node.value else Known(None))
            return UNKNOWN
        case ast.YieldFrom():
            frame.yielded.append(as_sequence(value(frame, node.value)).each)
            return UNKNOWN
    return UNKNOWN


def default_values(frame: Frame, arguments: ast.arguments) -> dict[str, Value]:
    """Return what the parameters of a function hold that are not given."""
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    held = {one.arg: value(frame, default) for one, default in zip(last, arguments.defaults, strict=True)}
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**held, **{one.arg: value(frame, default) for one, default in named if default is not None}}


def _name(frame: Frame, name: str) -> Value:
    inner: Frame | None = frame
    while inner is not None:
        if name in inner.variables:
            return inner.variables[name]
        if name in inner.cells:
            return inner.cells[name]
        inner = inner.outer
    if name in frame.names:
        return value_of(frame.names[name])
    if hasattr(builtins, name):
        return Known(getattr(builtins, name))
    return UNKNOWN


def _call(frame: Frame, node: ast.Call) -> Value:
    args: list[Value] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            args.extend(_spread(value(frame, one.value)))
        else:
            args.append(value(frame, one))
    named: dict[str, Value] = {}
    for word in node.keywords:
        given = value(frame, word.value)
        if word.arg is not None:
            named[word.arg] = given
        else:
            for table in alternatives(given):
                if isinstance(table, Table):
                    named.update((key, one) for key, one in table.items if isinstance(key, str))
    return frame.walk.call(frame, node, value(frame, node.func), args, named)


def _spread(given: Value) -> list[Value]:
    if isinstance(given, Size):
        return [Scalar(given.sizes), Scalar(given.last)]
    whole = as_sequence(given)
    return list(whole.items) if whole.items is not None else [whole.each] * _SPREAD


def binary(frame: Frame, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """Return what an arithmetic operator gives."""
    match left, right:
        case Known(), Known() if isinstance(left.obj, (*PLAIN, tuple, list)) and isinstance(
            right.obj, (*PLAIN, tuple, list)
        ):
            try:
                return Known(_OPERATORS[type(op)](left.obj, right.obj), max(left.kind, right.kind))
            except Exception:
                return CONFIG
        case During(), During():
            if isinstance(op, ast.BitOr):
                return During(left.modes | right.modes)
            if isinstance(op, ast.BitAnd):
                return During(left.modes & right.modes)
        case (During() as during, other) | (other, During() as during):
            if isinstance(op, ast.BitOr) and truth(other) is False:
                return during
            if isinstance(op, ast.BitAnd) and truth(other) is True:
                return during
            return Scalar(truth_kind(other))
        case Seq(), Seq() if isinstance(op, ast.Add):
            if left.items is not None and right.items is not None:
                return sequence([*left.items, *right.items])
            return Seq(None, join([left.each, right.each]), max(left.length, right.length))
        case (Size(), _) | (_, Size()):
            kinds = [content_kind(left), content_kind(right)]
            last = right.last if isinstance(right, Size) else _last_kind(right)
            return Size(max(kinds), last)
        case (Seq() as several, number) | (number, Seq() as several) if isinstance(op, ast.Mult):
            if isinstance(number, Known) and isinstance(number.obj, int) and several.items and number.obj <= 8:
                return sequence(several.items * number.obj)
            return Seq(None, several.each, max(several.length, truth_kind(number)))
    if has_tensor(left) or has_tensor(right):
        plain = [one for one in (left, right) if not has_tensor(one)]
        tensor = tensor_like(left, right)
        logic = isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
        return tensor if logic or plain else Tensor(tensor.sizes, _matmul(op, right, tensor), False, tensor.rank)
    if isinstance(left, Known) and isinstance(left.obj, str):
        return Scalar(content_kind(right))
    kind = max(truth_kind(left), truth_kind(right))
    return Unknown(kind) if isinstance(left, Unknown) or isinstance(right, Unknown) else Scalar(kind)


def _matmul(op: ast.operator, right: Value, tensor: Tensor) -> Kind:
    return right.last if isinstance(op, ast.MatMult) and isinstance(right, Tensor) else tensor.last


def _last_kind(given: Value) -> Kind:
    if isinstance(given, Seq) and given.items:
        return max(Kind.CONFIG, truth_kind(given.items[-1]))
    return max(Kind.CONFIG, content_kind(given))


def _unary(op: ast.unaryop, given: Value) -> Value:
    if isinstance(given, Known) and isinstance(given.obj, int | float):
        try:
            return Known(_OPERATORS[type(op)](given.obj), given.kind)
        except Exception:
            return CONFIG
    return given


def cases(frame: Frame, node: ast.expr) -> list[dict[str, Value]]:
    """Return the variables before a condition, case by case.

    An argument that may be None is looked at as None and as what else it may be, each by itself: in
    ``x is None or not tracing(x)`` the second part knows what the first one has asked.
    """
    several = [frame.variables]
    for name in dict.fromkeys(_asked_for_none(node)):
        held = frame.variables.get(name)
        if isinstance(held, Choice) and is_none(held) is None and len(several) < _CASES:
            several = [{**one, name: case} for one in several for case in (NONE, without_none(held))]
    return several


def _asked_for_none(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                yield name


def condition(frame: Frame, node: ast.expr) -> Value:
    """Return what the condition of a statement gives, whatever the case."""
    before, outcomes = frame.variables, []
    for variables in cases(frame, node):
        frame.variables = variables
        outcomes.append(test(frame, node))
    if len(outcomes) == 1:
        return outcomes[0]
    frame.variables = {**frame.variables, **before}
    if len(set(outcomes)) == 1:
        return outcomes[0]
    return Scalar(max(Kind.SAFE if truth(one) is not None else truth_kind(one) for one in outcomes))


def test(frame: Frame, node: ast.expr) -> Value:
    """Return what a part of a condition gives; what it decides is noted by the statement it is in."""
    match node:
        case ast.BoolOp():
            return _either(frame, node, node.values, decides=False)
        case ast.UnaryOp(op=ast.Not()):
            return _inverted(frame, test(frame, node.operand))
    return value(frame, node)


def _inverted(frame: Frame, outcome: Value) -> Value:
    if isinstance(outcome, During):
        return During(frozenset(frame.modes) - outcome.modes)
    known = truth(outcome)
    if known is not None:
        return Known(not known, max(Kind.SAFE, truth_kind(outcome)))
    return Scalar(truth_kind(outcome))


def _either(frame: Frame, node: ast.BoolOp, values: list[ast.expr], *, decides: bool) -> Value:
    """``and``, ``or``: what comes after a part that decides is not evaluated, in the modes in which it decides."""
    if len(values) == 1:
        return value(frame, values[0]) if decides else test(frame, values[0])
    first = test(frame, values[0])
    if decides:
        _decided_here(frame, values[0], first, "and" if isinstance(node.op, ast.And) else "or")
    stops_at = isinstance(node.op, ast.Or)
    known = truth(first)
    if known is not None:
        return first if known is stops_at else _either(frame, node, values[1:], decides=decides)
    if isinstance(first, During):
        goes_on = frame.modes - first.modes if stops_at else frame.modes & first.modes
        if not goes_on:
            return Known(stops_at)
        with frame.only_in(goes_on):
            rest = _either(frame, node, values[1:], decides=decides)
        if goes_on == frame.modes:
            return rest
        if isinstance(rest, During):
            return During(first.modes | rest.modes if stops_at else first.modes & rest.modes)
        decided = truth(rest)
        if decided is not None:
            return first if decided is not stops_at else Known(stops_at)
        with frame.only_in(goes_on):
            _decided_here(frame, node, rest, "and/or")
        return SAFE
    before = frame.variables
    frame.variables = narrowed(frame, values[0], not stops_at)
    rest = _either(frame, node, values[1:], decides=decides)
    frame.variables = {**frame.variables, **before}
    return join([_when(first, stops_at), rest], max(truth_kind(first), truth_kind(rest)))


def _when(first: Value, outcome: bool) -> Value:
    """Return what the first part of ``a or b`` is if it is the result."""
    some = [one for one in alternatives(first) if truth(one) is not (not outcome)]
    return join(some) if some else first


def _decided_here(frame: Frame, node: ast.expr, outcome: Value, construct: str) -> None:
    kind = truth_kind(outcome)
    if kind >= Kind.SHAPE:
        frame.found(node, construct, kind)


def _compare(frame: Frame, node: ast.Compare) -> Value:
    left = value(frame, node.left)
    outcomes = []
    for op, other in zip(node.ops, node.comparators, strict=True):
        right = value(frame, other)
        outcomes.append(_compared(frame, node, op, left, right))
        left = right
    if len(outcomes) == 1:
        return outcomes[0]
    for one in outcomes[:-1]:
        _decided_here(frame, node, one, "a < b < c")
    return Scalar(max(map(truth_kind, outcomes)))


def _compared(frame: Frame, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, ast.Is | ast.IsNot):
        return _identical(isinstance(op, ast.Is), left, right)
    if isinstance(op, ast.In | ast.NotIn):
        return _contained(frame, node, isinstance(op, ast.In), left, right)
    both = (left, right)
    if all(isinstance(one, Known) and isinstance(one.obj, (*PLAIN, tuple, list)) for one in both):
        try:
            outcome = bool(_OPERATORS[type(op)](left.obj, right.obj))  # type: ignore[union-attr]
        except Exception:
            return CONFIG
        return Known(outcome, max(left.kind, right.kind))  # type: ignore[union-attr]
    if any(isinstance(one, Tensor) for side in both for one in alternatives(side)):
        tensor = tensor_like(left, right)
        return Tensor(tensor.sizes, tensor.last, True, tensor.rank)
    return Scalar(max(content_kind(left), content_kind(right)))


def _identical(same: bool, left: Value, right: Value) -> Value:
    for one, other in ((left, right), (right, left)):
        if isinstance(other, Known) and other.obj is None:
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
        frame.found(node, "in", Kind.DATA)
        return Scalar(Kind.DATA)
    return Scalar(kind)


def _ternary(frame: Frame, node: ast.IfExp) -> Value:
    outcome = condition(frame, node.test)
    known = truth(outcome)
    frame.found(node, "... if ... else ...", truth_kind(outcome))
    if known is not None:
        return value(frame, node.body if known else node.orelse)
    before = frame.variables
    ways = []
    for taken, part in ((True, node.body), (False, node.orelse)):
        modes = modes_of(frame, outcome, taken)
        if modes:
            frame.variables = narrowed(frame, node.test, taken)
            with frame.only_in(modes):
                ways.append(value(frame, part))
            frame.variables = before
    return join(ways, truth_kind(outcome))


def modes_of(frame: Frame, outcome: Value, taken: bool) -> frozenset[str]:
    """Return in which modes a branch of that condition is reached."""
    if isinstance(outcome, During):
        return frame.modes & outcome.modes if taken else frame.modes - outcome.modes
    return frame.modes


def _slice(frame: Frame, node: ast.Slice) -> Value:
    ends = [None if one is None else value(frame, one) for one in (node.lower, node.upper, node.step)]
    if all(one is None or isinstance(one, Known) for one in ends):
        return Known(slice(*(one.obj if isinstance(one, Known) else None for one in ends)))
    return Unknown(max(max(truth_kind(one), Kind.CONFIG) for one in ends if one is not None))


def _sequence(frame: Frame, nodes: list[ast.expr]) -> Value:
    items: list[Value] = []
    for one in nodes:
        if isinstance(one, ast.Starred):
            whole = value(frame, one.value)
            inner = as_sequence(whole)
            if inner.items is None:
                rest = [value(frame, other) for other in nodes if not isinstance(other, ast.Starred)]
                if isinstance(whole, Size):
                    last = _last_kind(sequence(rest)) if nodes[-1] is not one else whole.last
                    return Size(max([whole.sizes, *map(content_kind, rest)]), last)
                return Seq(None, join([inner.each, *rest]), inner.length)
            items.extend(inner.items)
        else:
            items.append(value(frame, one))
    return sequence(items)


def _dict(frame: Frame, node: ast.Dict) -> Value:
    items: dict[Any, Value] = {}
    each: Value | None = None
    for key, given in zip(node.keys, node.values, strict=True):
        held = value(frame, given)
        if key is None:
            for one in alternatives(held):
                if isinstance(one, Table):
                    items.update(one.items)
                    each = one.each if each is None else each
            continue
        name = value(frame, key)
        if isinstance(name, Known) and isinstance(name.obj, PLAIN):
            items[name.obj] = held
        else:
            each = held if each is None else join([each, held])
    return Table(tuple(items.items()), each)


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    before = frame.variables
    frame.variables = dict(before)
    length = Kind.SAFE
    items: tuple[Value, ...] | None = None
    try:
        for part in node.generators:
            whole = as_sequence(value(frame, part.iter))
            frame.found(part.iter, "comprehension", whole.length)
            length = max(length, whole.length)
            items = whole.items if len(node.generators) == 1 and not part.ifs else None
            frame.walk.assign(frame, part.target, whole.each)
            for condition in part.ifs:
                outcome = test(frame, condition)
                frame.found(condition, "if in a comprehension", truth_kind(outcome))
                length = max(length, truth_kind(outcome), Kind.CONFIG)
                frame.variables = narrowed(frame, condition, True)
        if isinstance(node, ast.DictComp):
            return _dict_of(frame, node, items)
        if items is not None and len(items) <= 64:
            given = []
            for one in items:
                frame.walk.assign(frame, node.generators[0].target, one)
                given.append(value(frame, node.elt))
            return sequence(given)
        return Seq(None, value(frame, node.elt), max(length, Kind.SAFE))
    finally:
        frame.variables = before


def _dict_of(frame: Frame, node: ast.DictComp, items: tuple[Value, ...] | None) -> Value:
    held: dict[Any, Value] = {}
    for one in items if items is not None and len(items) <= 64 else ():
        frame.walk.assign(frame, node.generators[0].target, one)
        key = value(frame, node.key)
        if not isinstance(key, Known) or not isinstance(key.obj, PLAIN):
            break
        held[key.obj] = value(frame, node.value)
    else:
        if items is not None:
            return Table(tuple(held.items()))
    return Table((), value(frame, node.value))


def _text(frame: Frame, node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    for part in node.values:
        held = value(frame, part.value) if isinstance(part, ast.FormattedValue) else value(frame, part)
        parts.append(CONFIG if has_tensor(held) else held)
        if isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1):
            parts.append(CONFIG)
    if all(isinstance(one, Known) and isinstance(one.obj, PLAIN) for one in parts):
        return Known("".join(str(one.obj) for one in parts if isinstance(one, Known)))
    return Scalar(max(map(content_kind, parts), default=Kind.SAFE))
