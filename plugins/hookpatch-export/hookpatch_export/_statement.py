"""What a statement does to the variables, and what is found in it."""

from __future__ import annotations

import ast
from typing import Final

from hookpatch_export._attribute import set_item
from hookpatch_export._condition import cases, condition, modes_of, test
from hookpatch_export._expression import default_values, value
from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame, join_variables
from hookpatch_export._iteration import as_sequence
from hookpatch_export._join import join
from hookpatch_export._narrow import narrowed
from hookpatch_export._operator import binary
from hookpatch_export._question import alternatives, content_kind, is_none, truth, truth_kind
from hookpatch_export._value import UNKNOWN, During, Instance, Known, Local, Scalar, Seq, Size, Tensor, Value, value_of

_UNROLLED: Final = 8  # the items of a tuple are looked at one by one, up to that many


def run(frame: Frame, statements: list[ast.stmt]) -> bool:
    """Walk a block.

    Returns:
        Whether what comes after it is reached.
    """
    return all(_run(frame, one) for one in statements)


def _run(frame: Frame, node: ast.stmt) -> bool:
    match node:
        case ast.Expr():
            value(frame, node.value)
        case ast.Assign():
            held = value(frame, node.value)
            for target in node.targets:
                assign(frame, target, held)
        case ast.AnnAssign() if node.value is not None:
            assign(frame, node.target, value(frame, node.value))
        case ast.AugAssign():
            now = value(frame, node.target)
            assign(frame, node.target, binary(node.op, now, value(frame, node.value)))
        case ast.Return():
            held = value(frame, node.value) if node.value is not None else Known(None)
            frame.returned.append(held)
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
            for one in node.items:
                held = value(frame, one.context_expr)
                if one.optional_vars is not None:
                    assign(frame, one.optional_vars, held)
            return run(frame, node.body)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            frame.variables[node.name] = Local(node, frame, default_values(frame, node.args))
        case ast.Break() | ast.Continue():
            frame.exits.append(frame.variables)
            return False
        case ast.Import() | ast.ImportFrom():
            _import(frame, node)
        case ast.Delete():
            for target in node.targets:
                if isinstance(target, ast.Name):
                    frame.variables.pop(target.id, None)
        case ast.Global():
            frame.globals.update(node.names)
    return True


def assign(frame: Frame, target: ast.expr, held: Value) -> None:
    """Give a name, an attribute, an item or several of them a value."""
    match target:
        case ast.Name():
            if target.id in frame.globals:
                frame.found(target, "write to a global", Kind.CALL)
            frame.variables[target.id] = held
        case ast.Tuple() | ast.List():
            for name, part in zip(target.elts, _parts(held, target.elts), strict=True):
                assign(frame, name.value if isinstance(name, ast.Starred) else name, part)
        case ast.Attribute():
            owner = value(frame, target.value)
            for one in alternatives(owner):
                if isinstance(one, Known) or (isinstance(one, Instance) and one.of_model):
                    frame.found(target, "write to self", Kind.CALL)
                frame.walk.write(one, target.attr, held)
        case ast.Subscript():
            owner, index = value(frame, target.value), value(frame, target.slice)
            if not isinstance(owner, Tensor):
                replaced = set_item(owner, index, held)
                if replaced is not owner and replaced != owner:
                    assign(frame, target.value, replaced)


def _parts(held: Value, targets: list[ast.expr]) -> list[Value]:
    """Return what each of several names gets."""
    starred = [place for place, one in enumerate(targets) if isinstance(one, ast.Starred)]
    several = [_parts_of(one, targets, starred) for one in alternatives(held) if not is_none(one)]
    if not several:
        return [UNKNOWN] * len(targets)
    return [join(parts) for parts in zip(*several, strict=True)]


def _parts_of(held: Value, targets: list[ast.expr], starred: list[int]) -> list[Value]:
    if isinstance(held, Size):
        parts: list[Value] = [Scalar(held.sizes) for _ in targets]
        if not starred or starred[0] != len(targets) - 1:
            parts[-1] = Scalar(held.last)
        for place in starred:
            parts[place] = Size(held.sizes, held.sizes if place != len(targets) - 1 else held.last)
        return parts
    whole = as_sequence(held)
    if whole.items is not None:
        items = list(whole.items)
        if not starred and len(items) == len(targets):
            return items
        if starred and len(items) >= len(targets) - 1:
            place, after = starred[0], len(targets) - starred[0] - 1
            middle = items[place : len(items) - after]
            rest = Seq(tuple(middle), join(middle) if middle else UNKNOWN)
            return [*items[:place], rest, *items[len(items) - after :]]
    return [Seq(None, whole.each, whole.length) if place in starred else whole.each for place in range(len(targets))]


def _if(frame: Frame, node: ast.If) -> bool:
    if isinstance(node.test, ast.Constant):
        return run(frame, node.body if node.test.value else node.orelse)
    decided = Kind.SAFE
    undecided: list[Kind] = []
    ends: list[tuple[dict[str, Value], frozenset[str]]] = []
    for variables in cases(frame, node.test):
        frame.variables = variables
        outcome = test(frame, node.test)
        if (known := truth(outcome)) is None:
            undecided.append(truth_kind(outcome))
        else:
            decided = max(decided, truth_kind(outcome))
        before = frame.variables
        for taken, block in ((True, node.body), (False, node.orelse)):
            modes = modes_of(frame, outcome, taken)
            if known is (not taken) or not modes:
                continue
            frame.variables = before
            frame.variables = narrowed(frame, node.test, taken)
            with frame.only_in(modes):
                if run(frame, block):
                    ends.append((frame.variables, frame.modes))
    kind = max(undecided, default=decided)
    checks = not node.orelse and isinstance(node.body[-1], ast.Raise)
    construct = "elif" if frame.file.line(node.lineno).startswith("elif") else "if"
    frame.found(node.test, f"{construct} that raises" if checks else construct, kind)
    if not ends:
        return False
    frame.variables = join_variables([variables for variables, _ in ends], max(undecided, default=Kind.SAFE))
    frame.modes = frozenset().union(*(modes for _, modes in ends))
    return True


def _for(frame: Frame, node: ast.For | ast.AsyncFor) -> bool:
    given = value(frame, node.iter)
    whole = as_sequence(given)
    frame.found(node.iter, "for", whole.length)
    if whole.items is not None and len(whole.items) <= _UNROLLED:
        turns = list(whole.items)
    elif whole.items is not None:
        turns = _different(whole.items)
    else:
        turns = [whole.each, whole.each]
    outer, frame.exits = frame.exits, []
    before = frame.variables
    for turn in turns:
        start = dict(frame.variables)
        assign(frame, node.target, turn)
        run(frame, node.body)
        frame.variables = join_variables([start, frame.variables, *frame.exits], whole.length)
        frame.exits = []
    if turns and whole.items is not None and len(whole.items) <= _UNROLLED:
        pass
    else:
        frame.variables = join_variables([before, frame.variables], whole.length)
    frame.exits = outer
    return run(frame, node.orelse)


def _different(items: tuple[Value, ...]) -> list[Value]:
    """Keep the first, the last and one of each kind: a model's layers are mostly alike."""
    kinds: dict[object, Value] = {}
    for one in items:
        kinds.setdefault(_kind_of(one), one)
    return [*kinds.values(), items[-1]]


def _kind_of(one: Value) -> object:
    if isinstance(one, Known) and hasattr(one.obj, "named_modules"):
        return tuple(
            (
                name,
                type(part),
                *(held for key, held in vars(part).items() if isinstance(held, str | bool) and key != "training"),
            )
            for name, part in one.obj.named_modules()
        )
    return type(one)


def _while(frame: Frame, node: ast.While) -> bool:
    outer, frame.exits = frame.exits, []
    ends = []
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    for _ in range(2):
        outcome = condition(frame, node.test)
        kind = truth_kind(outcome)
        frame.found(node.test, "while", kind)
        if not endless:
            ends.append(frame.variables)
        if truth(outcome) is False:
            break
        frame.variables = narrowed(frame, node.test, True)
        start = frame.variables
        run(frame, node.body)
        ends += frame.exits
        frame.exits = []
        frame.variables = join_variables([start, frame.variables], kind)
    frame.exits = outer
    frame.variables = join_variables([*ends, frame.variables], Kind.SAFE)
    return run(frame, node.orelse)


def _assert(frame: Frame, node: ast.Assert) -> None:
    outcome = condition(frame, node.test)
    frame.found(node.test, "assert", truth_kind(outcome))
    if truth(outcome) is None:
        frame.variables = narrowed(frame, node.test, True)


def _match(frame: Frame, node: ast.Match) -> bool:
    subject = value(frame, node.subject)
    kind = max(truth_kind(subject), content_kind(subject))
    frame.found(node.subject, "match", kind)
    before, ends = frame.variables, []
    for case in node.cases:
        frame.variables = dict(before)
        for name in _captured(case.pattern):
            frame.variables[name] = subject if isinstance(case.pattern, ast.MatchAs) else as_sequence(subject).each
        if case.guard is not None:
            outcome = test(frame, case.guard)
            frame.found(case.guard, "case", truth_kind(outcome))
        if run(frame, case.body):
            ends.append(frame.variables)
    last = node.cases[-1]
    if not (isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None):
        ends.append(before)
    if not ends:
        return False
    frame.variables = join_variables(ends, kind)
    return True


def _captured(pattern: ast.pattern) -> list[str]:
    return [one.name for one in ast.walk(pattern) if isinstance(one, ast.MatchAs | ast.MatchStar) and one.name]


def _try(frame: Frame, node: ast.Try | ast.TryStar) -> bool:
    frame.found(node, "try", Kind.CONFIG)
    before, returned = dict(frame.variables), len(frame.returned)
    ends = []
    if run(frame, [*node.body, *node.orelse]):
        ends.append(frame.variables)
    if any(isinstance(one, During) for one in frame.returned[returned:]):
        return run(frame, node.finalbody) and bool(ends)  # torch was asked how it captures: that it raises is no case
    during = join_variables([before, frame.variables])
    for handler in node.handlers:
        frame.variables = dict(during)
        if handler.name:
            frame.variables[handler.name] = Instance(Exception)
        if run(frame, handler.body):
            ends.append(frame.variables)
    frame.variables = join_variables(ends) if ends else during
    return run(frame, node.finalbody) and bool(ends)


def _import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    """Names that are imported where they are used: read if the module is there, unknown else."""
    import importlib
    import sys

    package = str(frame.names.get("__package__") or "")
    for one in node.names:
        name = one.asname or one.name.partition(".")[0]
        frame.variables[name] = UNKNOWN
        try:
            if isinstance(node, ast.Import):
                held = sys.modules[one.name if one.asname else name]
            else:
                module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                held = getattr(sys.modules[module], one.name)
        except (KeyError, AttributeError, ImportError, ValueError):
            continue
        frame.variables[name] = value_of(held)
