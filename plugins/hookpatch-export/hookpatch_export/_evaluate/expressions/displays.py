"""Evaluate displays and comprehensions: tuples, lists, sets and dicts written out in the source."""

from __future__ import annotations

import ast
from typing import Any, Final

from hookpatch_export._evaluate.expressions.conditions import test
from hookpatch_export._evaluate.expressions.narrowing import narrowed
from hookpatch_export._evaluate.expressions.operators import last_kind
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join, sequence
from hookpatch_export._values.questions import alternatives, content_kind, truth_kind
from hookpatch_export._values.value import PLAIN, Known, Seq, Size, Table, Tensor, Value

_LONGEST: Final = 64  # items; a comprehension over more is not evaluated item by item


def sequence_display(frame: Frame, nodes: list[ast.expr]) -> Value:
    """Return a tuple or list written out; with the sizes of a tensor unpacked in it, a size."""
    items: list[Value] = []
    for element in nodes:
        if isinstance(element, ast.Starred):
            whole = frame.walk.value(frame, element.value)
            inner = as_sequence(whole)
            if isinstance(whole, Tensor) and inner.length >= Kind.SHAPE:
                frame.report(element, "[*...]", inner.length)
            if inner.items is None:
                unstarred = [frame.walk.value(frame, node) for node in nodes if not isinstance(node, ast.Starred)]
                if isinstance(whole, Size):
                    last = last_kind(sequence(unstarred)) if nodes[-1] is not element else whole.last
                    return Size(max([whole.sizes, *map(content_kind, unstarred)]), last)
                return Seq(None, join([inner.each, *unstarred]), inner.length)
            items.extend(inner.items)
        else:
            items.append(frame.walk.value(frame, element))
    return sequence(items)


def dict_display(frame: Frame, node: ast.Dict) -> Value:
    """Return a dict written out."""
    items: dict[Any, Value] = {}
    each: Value | None = None
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = frame.walk.value(frame, value_node)
        if key is None:
            for alternative in alternatives(value):
                if isinstance(alternative, Table):
                    items.update(alternative.items)
                    each = alternative.each if each is None else each
            continue
        name = frame.walk.value(frame, key)
        if isinstance(name, Known) and isinstance(name.obj, PLAIN):
            items[name.obj] = value
        else:
            each = value if each is None else join([each, value])
    return Table(tuple(items.items()), each)


def comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    """Return the value of a comprehension; a capture unrolls a comprehension over a tensor's sizes.

    The loop decides how long the list becomes. The length of the list decides nothing later.
    """
    before = frame.variables
    frame.variables = dict(before)
    length = Kind.SAFE
    items: tuple[Value, ...] | None = None
    try:
        for part in node.generators:
            whole = as_sequence(frame.walk.value(frame, part.iter))
            frame.report(part.iter, "comprehension", whole.length)
            length = max(length, whole.length)
            items = whole.items if len(node.generators) == 1 and not part.ifs else None
            frame.walk.assign(frame, part.target, whole.each)
            for clause in part.ifs:
                outcome = test(frame, clause)
                frame.report(clause, "if in a comprehension", truth_kind(outcome))
                length = max(length, truth_kind(outcome), Kind.CONFIG)
                frame.variables = narrowed(frame, clause, True)
        if isinstance(node, ast.DictComp):
            return _dict_of(frame, node, items)
        if items is not None and len(items) <= _LONGEST:
            values = []
            for item in items:
                frame.walk.assign(frame, node.generators[0].target, item)
                values.append(frame.walk.value(frame, node.elt))
            return sequence(values)
        return Seq(None, frame.walk.value(frame, node.elt), Kind.CONFIG if length >= Kind.SHAPE else length)
    finally:
        frame.variables = before


def _dict_of(frame: Frame, node: ast.DictComp, items: tuple[Value, ...] | None) -> Value:
    entries: dict[Any, Value] = {}
    for item in items if items is not None and len(items) <= _LONGEST else ():
        frame.walk.assign(frame, node.generators[0].target, item)
        key = frame.walk.value(frame, node.key)
        if not isinstance(key, Known) or not isinstance(key.obj, PLAIN):
            break
        entries[key.obj] = frame.walk.value(frame, node.value)
    else:
        if items is not None:
            return Table(tuple(entries.items()))
    return Table((), frame.walk.value(frame, node.value))
