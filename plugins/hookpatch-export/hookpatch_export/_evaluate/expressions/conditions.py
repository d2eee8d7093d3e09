"""Evaluate conditions, and report the ones that decide on a size or a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from hookpatch_export._evaluate.expressions.narrowing import narrowed
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.join import join, without_none
from hookpatch_export._values.questions import alternatives, is_none, truth, truth_kind
from hookpatch_export._values.value import NONE, SAFE, Choice, Known, Scalar, TrueIn, Value

_CASES: Final = 4  # cases of a condition that are evaluated


def cases(frame: Frame, node: ast.expr) -> list[dict[str, Value]]:
    """Return the variables before a condition, case by case.

    An argument that may be None makes two cases, None and not None: in ``x is None or not tracing(x)`` the second
    part is evaluated with an argument that is not None.
    """
    several = [frame.variables]
    for name in dict.fromkeys(_asked_for_none(node)):
        value = frame.variables.get(name)
        if isinstance(value, Choice) and is_none(value) is None and len(several) < _CASES:
            several = [{**variables, name: case} for variables in several for case in (NONE, without_none(value))]
    return several


def _asked_for_none(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                yield name


def condition(frame: Frame, node: ast.expr) -> Value:
    """Return the value of a statement's condition, joined over all cases."""
    before, outcomes = frame.variables, []
    for variables in cases(frame, node):
        frame.variables = variables
        outcomes.append(test(frame, node))
    if len(outcomes) == 1:
        return outcomes[0]
    frame.variables = {**frame.variables, **before}
    if len(set(outcomes)) == 1:
        return outcomes[0]
    return Scalar(max(Kind.SAFE if truth(outcome) is not None else truth_kind(outcome) for outcome in outcomes))


def test(frame: Frame, node: ast.expr) -> Value:
    """Return the value of a part of a condition; the statement reports the decision."""
    match node:
        case ast.BoolOp():
            return boolean(frame, node, node.values, decides=False)
        case ast.UnaryOp(op=ast.Not()):
            return _inverted(frame, test(frame, node.operand))
    return frame.walk.value(frame, node)


def _inverted(frame: Frame, outcome: Value) -> Value:
    if isinstance(outcome, TrueIn):
        return TrueIn(frozenset(frame.modes) - outcome.modes)
    truth_value = truth(outcome)
    if truth_value is not None:
        return Known(not truth_value, truth_kind(outcome))
    return Scalar(truth_kind(outcome))


def boolean(frame: Frame, node: ast.BoolOp, values: list[ast.expr], *, decides: bool) -> Value:
    """Return the value of ``and`` or ``or``.

    In the modes in which a part decides, the parts after it are not evaluated.

    Args:
        frame: the frame to evaluate in.
        node: the whole ``and`` or ``or``.
        values: the parts left to evaluate.
        decides: whether the expression decides which part is evaluated, or is part of a condition that decides.
    """
    if len(values) == 1:
        return frame.walk.value(frame, values[0]) if decides else test(frame, values[0])
    first = test(frame, values[0])
    stops_at = isinstance(node.op, ast.Or)
    if decides:
        report_decision(frame, values[0], first, "or" if stops_at else "and")
    truth_value = truth(first)
    if truth_value is not None:
        return first if truth_value is stops_at else boolean(frame, node, values[1:], decides=decides)
    if isinstance(first, TrueIn):
        return _after_capture_question(frame, node, first, values[1:], decides=decides)
    before = frame.variables
    frame.variables = narrowed(frame, values[0], not stops_at)
    remainder = boolean(frame, node, values[1:], decides=decides)
    frame.variables = {**frame.variables, **before}
    if truth(remainder) is stops_at and (not decides or _is_comparison(values[0], first)):
        # The result is the same, whatever the first part is. The first part is asked all the same.
        return Known(stops_at, truth_kind(remainder) if decides else max(truth_kind(first), truth_kind(remainder)))
    return join([_if_it_decides(first, stops_at), remainder], max(truth_kind(first), truth_kind(remainder)))


def _is_comparison(node: ast.expr, outcome: Value) -> bool:
    """Return True if a value is True or False: a comparison of numbers, not of tensors."""
    return isinstance(node, ast.Compare) and isinstance(outcome, Scalar)


def _after_capture_question(
    frame: Frame, node: ast.BoolOp, first: TrueIn, values: list[ast.expr], *, decides: bool
) -> Value:
    """Evaluate the rest only in the modes in which a question about the capture does not decide."""
    stops_at = isinstance(node.op, ast.Or)
    goes_on = modes_of_branch(frame, first, not stops_at)
    if not goes_on:
        return Known(stops_at)
    with frame.only_in(goes_on):
        remainder = boolean(frame, node, values, decides=decides)
    if goes_on == frame.modes:
        return remainder
    if isinstance(remainder, TrueIn):
        return TrueIn(first.modes | remainder.modes if stops_at else first.modes & remainder.modes)
    truth_value = truth(remainder)
    if truth_value is not None:
        return Known(stops_at) if truth_value is stops_at else first
    with frame.only_in(goes_on):
        report_decision(frame, node, remainder, "and/or")
    return SAFE


def _if_it_decides(first: Value, outcome: bool) -> Value:
    """Return the value of the first part of ``a or b`` in the case that the first part is the result."""
    decisive = [alternative for alternative in alternatives(first) if truth(alternative) in (outcome, None)]
    return join(decisive) if decisive else first


def report_decision(frame: Frame, node: ast.expr, outcome: Value, construct: str) -> None:
    """Report that ``and`` and the like decide on a size or on a tensor's numbers; other decisions are no findings."""
    kind = truth_kind(outcome)
    if kind >= Kind.SHAPE:
        frame.report(node, construct, kind)


def ternary(frame: Frame, node: ast.IfExp) -> Value:
    """Return the value of ``... if ... else ...``."""
    outcome = condition(frame, node.test)
    truth_value = truth(outcome)
    frame.report(node, "... if ... else ...", truth_kind(outcome))
    if truth_value is not None:
        return frame.walk.value(frame, node.body if truth_value else node.orelse)
    before = frame.variables
    ways = []
    for holds, part in ((True, node.body), (False, node.orelse)):
        modes = modes_of_branch(frame, outcome, holds)
        if modes:
            frame.variables = narrowed(frame, node.test, holds)
            with frame.only_in(modes):
                ways.append(frame.walk.value(frame, part))
            frame.variables = before
    return join(ways, truth_kind(outcome))


def modes_of_branch(frame: Frame, outcome: Value, holds: bool) -> frozenset[str]:
    """Return the modes in which a branch of a condition is reached."""
    if isinstance(outcome, TrueIn):
        return frame.modes & outcome.modes if holds else frame.modes - outcome.modes
    return frame.modes
