"""Assign values to names, attributes and items: by an assignment, an import, a loop."""

from __future__ import annotations

import ast
import importlib.util
import sys

from hookpatch_export._evaluate.expressions.expression import value
from hookpatch_export._evaluate.expressions.items import decides, keep_changed, set_item
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives, is_mapping, is_none
from hookpatch_export._values.value import UNKNOWN, Instance, Known, Scalar, Seq, Size, Tensor, Value, value_of


def assign(frame: Frame, target: ast.expr, assigned: Value) -> None:
    """Assign a value to a name, an attribute, an item, or a tuple of these."""
    match target:
        case ast.Name():
            if target.id in frame.globals:
                frame.report(target, "write to a global", Kind.CALL)
                frame.walk.write(Known(frame.names), target.id, assigned)
            frame.variables[target.id] = assigned
        case ast.Tuple() | ast.List():
            for name, part in zip(target.elts, _parts(assigned, target.elts), strict=True):
                assign(frame, name.value if isinstance(name, ast.Starred) else name, part)
        case ast.Attribute():
            owner = value(frame, target.value)
            for alternative in alternatives(owner):
                if isinstance(alternative, Known) or (isinstance(alternative, Instance) and alternative.of_model):
                    frame.report(target, "write to self", Kind.CALL)
                frame.walk.write(alternative, target.attr, assigned)
        case ast.Subscript():
            owner, index = value(frame, target.value), value(frame, target.slice)
            if not isinstance(owner, Tensor):
                if any(map(is_mapping, alternatives(owner))):
                    decides(frame, target, index)
                replaced = set_item(owner, index, assigned)
                if replaced is not owner and replaced != owner:
                    keep_changed(frame, target.value, replaced)


def _parts(assigned: Value, targets: list[ast.expr]) -> list[Value]:
    """Return the part of a value that each of several names gets."""
    starred = [place for place, target in enumerate(targets) if isinstance(target, ast.Starred)]
    several = [
        _parts_of(alternative, targets, starred) for alternative in alternatives(assigned) if not is_none(alternative)
    ]
    if not several:
        return [UNKNOWN] * len(targets)
    return [join(parts) for parts in zip(*several, strict=True)]


def _parts_of(assigned: Value, targets: list[ast.expr], starred: list[int]) -> list[Value]:
    if isinstance(assigned, Size):
        parts: list[Value] = [Scalar(assigned.sizes) for _ in targets]
        if not starred or starred[0] != len(targets) - 1:
            parts[-1] = Scalar(assigned.last)
        for place in starred:
            parts[place] = Size(assigned.sizes, assigned.sizes if place != len(targets) - 1 else assigned.last)
        return parts
    whole = as_sequence(assigned)
    if whole.items is not None:
        items = list(whole.items)
        if not starred and len(items) == len(targets):
            return items
        if starred and len(items) >= len(targets) - 1:
            place, after = starred[0], len(targets) - starred[0] - 1
            middle = items[place : len(items) - after]
            starred_value = Seq(tuple(middle), join(middle) if middle else UNKNOWN)
            return [*items[:place], starred_value, *items[len(items) - after :]]
    start = whole.start[: starred[0]] if starred else whole.start
    many = Seq(None, whole.each, whole.length)
    any_of_them = [many if place in starred else whole.each for place in range(len(targets))]
    return [*start, *any_of_them[len(start) :]][: len(targets)]


def take_import(frame: Frame, node: ast.Import | ast.ImportFrom) -> None:
    """Assign the names of an import inside a function: known if the module is imported already."""
    package = str(frame.names.get("__package__") or "")
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        frame.variables[name] = UNKNOWN
        try:
            if isinstance(node, ast.Import):
                imported = sys.modules[alias.name if alias.asname else name]
            else:
                module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                imported = getattr(sys.modules[module], alias.name)
        except (KeyError, AttributeError, ImportError, ValueError):
            continue
        frame.variables[name] = value_of(imported)
