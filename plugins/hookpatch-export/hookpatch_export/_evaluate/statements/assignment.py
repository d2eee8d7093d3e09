"""Assign values to names, attributes and items: by an assignment, an import, a loop."""

from __future__ import annotations

import ast
import importlib.util
import sys

from hookpatch_export._evaluate.expressions.expression import value
from hookpatch_export._evaluate.expressions.items import set_item
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives, is_none
from hookpatch_export._values.value import UNKNOWN, Instance, Known, Scalar, Seq, Size, Tensor, Value, value_of


def assign(frame: Frame, target: ast.expr, held: Value) -> None:
    """Assign a value to a name, an attribute, an item, or a tuple of these."""
    match target:
        case ast.Name():
            if target.id in frame.globals:
                frame.report(target, "write to a global", Kind.CALL)
            frame.variables[target.id] = held
        case ast.Tuple() | ast.List():
            for name, part in zip(target.elts, _parts(held, target.elts), strict=True):
                assign(frame, name.value if isinstance(name, ast.Starred) else name, part)
        case ast.Attribute():
            owner = value(frame, target.value)
            for one in alternatives(owner):
                if isinstance(one, Known) or (isinstance(one, Instance) and one.of_model):
                    frame.report(target, "write to self", Kind.CALL)
                frame.walk.write(one, target.attr, held)
        case ast.Subscript():
            owner, index = value(frame, target.value), value(frame, target.slice)
            if not isinstance(owner, Tensor):
                replaced = set_item(owner, index, held)
                if replaced is not owner and replaced != owner:
                    assign(frame, target.value, replaced)


def _parts(held: Value, targets: list[ast.expr]) -> list[Value]:
    """Return the part of a value that each of several names gets."""
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
    known = whole.start[: starred[0]] if starred else whole.start
    many = Seq(None, whole.each, whole.length)
    any_of_them = [many if place in starred else whole.each for place in range(len(targets))]
    return [*known, *any_of_them[len(known) :]][: len(targets)]


def take_import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    """Assign the names of an import inside a function: known if the module is imported already."""
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
