"""Narrow the variables of a frame to a condition being true, or false."""

from __future__ import annotations

import ast

from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.join import join, without_none
from hookpatch_export._values.questions import alternatives, truth
from hookpatch_export._values.value import NONE, Instance, Known, Seq, Table, Tensor, Value


def narrowed(frame: Frame, test: ast.expr, outcome: bool) -> dict[str, Value]:
    """Return the variables where a condition has been found true or false.

    Args:
        frame: the frame to evaluate in.
        test: the condition.
        outcome: the truth that was found.
    """
    variables = dict(frame.variables)
    _narrow(variables, test, outcome)
    return variables


def _narrow(variables: dict[str, Value], test: ast.expr, outcome: bool) -> None:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            _narrow(variables, test.operand, not outcome)
        case ast.BoolOp(op=ast.And()) if outcome:
            for part in test.values:
                _narrow(variables, part, True)
        case ast.BoolOp(op=ast.Or()) if not outcome:
            for part in test.values:
                _narrow(variables, part, False)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            if name in variables:
                is_none = isinstance(test.ops[0], ast.Is) is outcome
                variables[name] = NONE if is_none else without_none(variables[name])
        case ast.NamedExpr():
            _narrow(variables, test.target, outcome)
        case ast.Compare(left=ast.NamedExpr(target=target)):
            _narrow(variables, ast.Compare(target, test.ops, test.comparators), outcome)
        case ast.Name(id=name) if name in variables:
            fitting = [
                alternative for alternative in alternatives(variables[name]) if truth(alternative) in (outcome, None)
            ]
            if fitting:
                variables[name] = join(fitting)
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]) if name in variables:
            variables[name] = _of_kind(variables[name], ast.unparse(kind), outcome)


def _of_kind(value: Value, kind: str, outcome: bool) -> Value:
    """Keep the alternatives that have a class, or the others, as far as the name of the class decides."""

    def fits(alternative: Value) -> bool:
        match alternative:
            case Tensor():
                return "Tensor" in kind
            case Seq():
                return "tuple" in kind or "list" in kind or "Sequence" in kind
            case Table():
                return "dict" in kind or "Mapping" in kind
            case Instance():
                return alternative.cls.__name__ in kind
            case Known():
                return type(alternative.obj).__name__ in kind
        return True

    fitting = [alternative for alternative in alternatives(value) if fits(alternative) is outcome]
    return join(fitting) if fitting else value
