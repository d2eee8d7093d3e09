"""Evaluate a statement: change the variables, and report the findings in it."""

from __future__ import annotations

import ast

from hookpatch_export._evaluate.expressions.conditions import cases, condition, modes_of_branch, test
from hookpatch_export._evaluate.expressions.expression import default_values, value
from hookpatch_export._evaluate.expressions.narrowing import narrowed
from hookpatch_export._evaluate.expressions.operators import binary
from hookpatch_export._evaluate.statements.assignment import assign, take_import
from hookpatch_export._evaluate.statements.loop_rounds import rounds_of
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame, join_variables
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.questions import content_kind, truth, truth_kind
from hookpatch_export._values.value import NONE, Instance, Local, TrueIn, Value


def walk_block(frame: Frame, statements: list[ast.stmt]) -> bool:
    """Walk a block.

    Returns:
        True if the code after the block is reached.
    """
    return all(_walk_statement(frame, statement) for statement in statements)


def _walk_statement(frame: Frame, node: ast.stmt) -> bool:
    match node:
        case ast.Expr():
            value(frame, node.value)
        case ast.Assign():
            assigned = value(frame, node.value)
            for target in node.targets:
                assign(frame, target, assigned)
        case ast.AnnAssign() if node.value is not None:
            assign(frame, node.target, value(frame, node.value))
        case ast.AugAssign():
            current = value(frame, node.target)
            assign(frame, node.target, binary(frame, node, current, value(frame, node.value)))
        case ast.Return():
            frame.returned.append(value(frame, node.value) if node.value is not None else NONE)
            return False
        case ast.Raise():
            return False
        case ast.If():
            return _if(frame, node)
        case ast.For() | ast.AsyncFor():
            return _for(frame, node)
        case ast.While():
            return _while(frame, node)
        case ast.Assert():
            _assert(frame, node)
        case ast.Match():
            return _match(frame, node)
        case ast.Try() | ast.TryStar():
            return _try(frame, node)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                entered = value(frame, item.context_expr)
                if item.optional_vars is not None:
                    assign(frame, item.optional_vars, entered)
            return walk_block(frame, node.body)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            frame.variables[node.name] = Local(node, frame, default_values(frame, node.args))
        case ast.Break():
            frame.breaks.append(frame.variables)
            return False
        case ast.Continue():
            frame.continues.append(frame.variables)
            return False
        case ast.Import() | ast.ImportFrom():
            take_import(frame, node)
        case ast.Delete():
            for target in node.targets:
                if isinstance(target, ast.Name):
                    frame.variables.pop(target.id, None)
        case ast.Global():
            frame.globals.update(node.names)
    return True


def _if(frame: Frame, node: ast.If) -> bool:
    if isinstance(node.test, ast.Constant):
        return walk_block(frame, node.body if node.test.value else node.orelse)
    decided = Kind.SAFE
    undecided: list[Kind] = []
    ends: list[tuple[dict[str, Value], frozenset[str]]] = []
    for variables in cases(frame, node.test):
        frame.variables = variables
        outcome = test(frame, node.test)
        if (truth_value := truth(outcome)) is None:
            undecided.append(truth_kind(outcome))
        else:
            decided = max(decided, truth_kind(outcome))
        before = frame.variables
        for holds, block in ((True, node.body), (False, node.orelse)):
            modes = modes_of_branch(frame, outcome, holds)
            if truth_value is (not holds) or not modes:
                continue
            frame.variables = before
            frame.variables = narrowed(frame, node.test, holds)
            with frame.only_in(modes):
                if walk_block(frame, block):
                    ends.append((frame.variables, frame.modes))
    kind = max(undecided, default=decided)
    checks = not node.orelse and isinstance(node.body[-1], ast.Raise)
    construct = "elif" if frame.file.line(node.lineno).startswith("elif") else "if"
    frame.report(node.test, f"{construct} that raises" if checks else construct, kind)
    if not ends:
        return False
    frame.variables = join_variables([variables for variables, _ in ends], max(undecided, default=Kind.SAFE))
    frame.modes = frozenset().union(*(modes for _, modes in ends))
    return True


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> bool:
    whole = as_sequence(value(frame, node.iter))
    frame.report(node.iter, "for", whole.length)
    rounds, complete = rounds_of(whole)
    outer = frame.breaks, frame.continues
    frame.breaks = []
    before = frame.variables
    for variable in rounds:
        start = dict(frame.variables)
        assign(frame, node.target, variable)
        frame.continues = []
        ends = [frame.variables] if walk_block(frame, node.body) else []
        ends += frame.continues
        if complete and frame.breaks and not ends:  # the loop ends in this round
            frame.variables = frame.breaks.pop()
            break
        # With all rounds known, what a round leaves is what the next one begins with.
        frame.variables = join_variables(ends if complete and ends else [start, *ends], whole.length)
    ends = [frame.variables, *frame.breaks] if complete else [before, frame.variables, *frame.breaks]
    frame.variables = join_variables(ends, whole.length)
    frame.breaks, frame.continues = outer
    return walk_block(frame, node.orelse)


def _while(frame: Frame, node: ast.While) -> bool:
    outer = frame.breaks, frame.continues
    frame.breaks, frame.continues = [], []
    ends = []
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    for _ in range(2):
        outcome = condition(frame, node.test)
        kind = truth_kind(outcome)
        frame.report(node.test, "while", kind)
        if not endless:
            ends.append(frame.variables)
        if truth(outcome) is False:
            break
        frame.variables = narrowed(frame, node.test, True)
        start = frame.variables
        walk_block(frame, node.body)
        ends += [*frame.breaks, *frame.continues]
        frame.breaks, frame.continues = [], []
        frame.variables = join_variables([start, frame.variables], kind)
    frame.breaks, frame.continues = outer
    frame.variables = join_variables([*ends, frame.variables])
    return walk_block(frame, node.orelse)


def _assert(frame: Frame, node: ast.Assert) -> None:
    outcome = condition(frame, node.test)
    frame.report(node.test, "assert", truth_kind(outcome))
    if truth(outcome) is None:
        frame.variables = narrowed(frame, node.test, True)


def _match(frame: Frame, node: ast.Match) -> bool:
    subject = value(frame, node.subject)
    kind = max(truth_kind(subject), content_kind(subject))
    frame.report(node.subject, "match", kind)
    before, ends = frame.variables, []
    for case in node.cases:
        frame.variables = dict(before)
        for name in _captured(case.pattern):
            frame.variables[name] = subject if isinstance(case.pattern, ast.MatchAs) else as_sequence(subject).each
        if case.guard is not None:
            outcome = test(frame, case.guard)
            frame.report(case.guard, "case", truth_kind(outcome))
        if walk_block(frame, case.body):
            ends.append(frame.variables)
    last = node.cases[-1]
    if not (isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None):
        ends.append(before)
    if not ends:
        return False
    frame.variables = join_variables(ends, kind)
    return True


def _captured(pattern: ast.pattern) -> list[str]:
    return [part.name for part in ast.walk(pattern) if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name]


def _try(frame: Frame, node: ast.Try | ast.TryStar) -> bool:
    frame.report(node, "try", Kind.CONFIG)
    before, returned = dict(frame.variables), len(frame.returned)
    ends = []
    if walk_block(frame, [*node.body, *node.orelse]):
        ends.append(frame.variables)
    if any(isinstance(result, TrueIn) for result in frame.returned[returned:]):
        # The block asks about the capture: an error of torch there is no case of its own.
        return walk_block(frame, node.finalbody) and bool(ends)
    during = join_variables([before, frame.variables])
    for handler in node.handlers:
        frame.variables = dict(during)
        if handler.name:
            frame.variables[handler.name] = Instance(Exception)
        if walk_block(frame, handler.body):
            ends.append(frame.variables)
    frame.variables = join_variables(ends) if ends else during
    return walk_block(frame, node.finalbody) and bool(ends)
