"""Evaluate an expression from the values of its parts."""

from __future__ import annotations

import ast
import builtins
from typing import Final

from hookpatch_export._evaluate.expressions.attributes import attribute
from hookpatch_export._evaluate.expressions.conditions import boolean, report_decision, ternary, test
from hookpatch_export._evaluate.expressions.displays import comprehension, dict_display, sequence_display
from hookpatch_export._evaluate.expressions.items import item
from hookpatch_export._evaluate.expressions.operators import binary, comparison, unary
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives, content_kind, has_tensor, truth_kind
from hookpatch_export._values.tensor_sizes import values_of
from hookpatch_export._values.value import (
    ANY,
    CONFIG,
    EMPTY,
    PLAIN,
    UNKNOWN,
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

_SPREAD: Final = 8  # arguments for a tuple of unknown length; a function takes as many as possible


def value(frame: Frame, node: ast.expr) -> Value:
    """Return the value of an expression, and report the findings in it."""
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
            return binary(frame, node, value(frame, node.left), value(frame, node.right))
        case ast.BoolOp():
            return boolean(frame, node, node.values, decides=True)
        case ast.UnaryOp(op=ast.Not()):
            outcome = test(frame, node)
            report_decision(frame, node, outcome, "not")
            return outcome
        case ast.UnaryOp():
            return unary(node.op, value(frame, node.operand))
        case ast.Compare():
            return _compare(frame, node)
        case ast.IfExp():
            return ternary(frame, node)
        case ast.Subscript():
            return item(frame, node, value(frame, node.value), value(frame, node.slice))
        case ast.Slice():
            return _slice(frame, node)
        case ast.Tuple() | ast.List():
            return sequence_display(frame, node.elts)
        case ast.Set():
            return Seq(None, join([value(frame, element) for element in node.elts]))
        case ast.Dict():
            return dict_display(frame, node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return comprehension(frame, node)
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
    """Return the defaults of a function's parameters by name."""
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    defaults = {
        parameter.arg: value(frame, default) for parameter, default in zip(last, arguments.defaults, strict=True)
    }
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**defaults, **{parameter.arg: value(frame, default) for parameter, default in named if default is not None}}


def _name(frame: Frame, name: str) -> Value:
    inner: Frame | None = frame
    while inner is not None:
        if name in inner.variables:
            return inner.variables[name]
        if name in inner.cells:
            cell = inner.cells[name]
            changed = frame.walk.written(cell.obj, "") if isinstance(cell, Known) else None
            return cell if changed is None else join([cell, changed])
        inner = inner.outer
    if name in frame.names:
        written = frame.walk.written(frame.names, name)
        return value_of(frame.names[name]) if written is None else join([value_of(frame.names[name]), written])
    if hasattr(builtins, name):
        return Known(getattr(builtins, name))
    return UNKNOWN


def _call(frame: Frame, node: ast.Call) -> Value:
    args: list[Value] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args.extend(_spread(value(frame, arg.value)))
        else:
            args.append(value(frame, arg))
    named: dict[str, Value] = {}
    for word in node.keywords:
        argument = value(frame, word.value)
        if word.arg is not None:
            named[word.arg] = argument
        else:
            for table in alternatives(argument):
                if isinstance(table, Table):
                    named.update((key, entry) for key, entry in table.items if isinstance(key, str))
                    if table.each not in (None, EMPTY):
                        named[ANY] = join([table.each, *([named[ANY]] if ANY in named else [])])
    return frame.walk.call(frame, node, value(frame, node.func), args, named)


def _spread(container: Value) -> list[Value]:
    if isinstance(container, Size):
        return [Scalar(container.sizes), Scalar(container.last)]
    whole = as_sequence(container)
    return list(whole.items) if whole.items is not None else [whole.each] * _SPREAD


def _compare(frame: Frame, node: ast.Compare) -> Value:
    left = value(frame, node.left)
    outcomes = []
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = value(frame, operand)
        outcomes.append(comparison(frame, node, op, left, right))
        left = right
    if len(outcomes) == 1:
        return outcomes[0]
    for outcome in outcomes[:-1]:
        report_decision(frame, node, outcome, "a < b < c")
    return Scalar(max(map(truth_kind, outcomes)))


def _slice(frame: Frame, node: ast.Slice) -> Value:
    ends = [None if bound is None else value(frame, bound) for bound in (node.lower, node.upper, node.step)]
    if all(end is None or isinstance(end, Known) for end in ends):
        return Known(slice(*(end.obj if isinstance(end, Known) else None for end in ends)))
    for bound, end in zip((node.lower, node.upper, node.step), ends, strict=True):
        tensors = [] if end is None else [part for part in alternatives(end) if isinstance(part, Tensor)]
        if bound is not None and (kind := values_of(tensors)) >= Kind.SHAPE:
            frame.report(bound, "[:tensor]", kind)
    return Unknown(max(max(truth_kind(end), Kind.CONFIG) for end in ends if end is not None))


def _text(frame: Frame, node: ast.JoinedStr) -> Value:
    parts: list[Value] = []
    for part in node.values:
        content = value(frame, part.value) if isinstance(part, ast.FormattedValue) else value(frame, part)
        if isinstance(part, ast.FormattedValue) and has_tensor(content):
            frame.report(part.value, "f-string", Kind.DATA)  # a tensor of one element is formatted by its number
        parts.append(CONFIG if has_tensor(content) else content)
        if isinstance(part, ast.FormattedValue) and (part.format_spec is not None or part.conversion != -1):
            parts.append(CONFIG)
    if all(isinstance(piece, Known) and isinstance(piece.obj, PLAIN) for piece in parts):
        return Known("".join(str(piece.obj) for piece in parts if isinstance(piece, Known)))
    return Scalar(max(map(content_kind, parts), default=Kind.SAFE))
