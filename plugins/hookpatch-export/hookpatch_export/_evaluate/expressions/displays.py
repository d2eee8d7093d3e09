"""Evaluate displays and comprehensions: tuples, lists, sets and dicts written out in the source."""

from __future__ import annotations

import ast
from typing import Any, Final, TypeAlias

from hookpatch_export._evaluate.expressions.conditions import test
from hookpatch_export._evaluate.expressions.narrowing import narrowed
from hookpatch_export._evaluate.expressions.operators import last_kind
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join, sequence
from hookpatch_export._values.questions import alternatives, content_kind, truth, truth_kind
from hookpatch_export._values.value import EMPTY, PLAIN, Known, Seq, Size, Table, Tensor, Value

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
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


def comprehension(frame: Frame, node: Comprehension) -> Value:
    """Return the value of a comprehension; a capture unrolls a comprehension over a tensor's sizes.

    The loop decides how long the list becomes. The length of the list decides nothing later.
    """
    before = frame.variables
    frame.variables = dict(before)
    rounds: list[tuple[Value, ...]] = []
    try:
        complete, length = _walk_rounds(frame, node, node.generators, rounds, _LONGEST)
    finally:
        frame.variables = before
    values = [value for *_, value in rounds]
    each = join(values) if values else EMPTY
    if isinstance(node, ast.DictComp):
        keys = [key.obj for key, _ in rounds if isinstance(key, Known) and isinstance(key.obj, PLAIN)]
        known = complete and len(keys) == len(rounds)
        return Table(tuple(dict(zip(keys, values, strict=True)).items())) if known else Table((), each)
    return sequence(values) if complete else Seq(None, each, Kind.CONFIG if length >= Kind.SHAPE else length)


def _walk_rounds(
    frame: Frame, node: Comprehension, generators: list[ast.comprehension], rounds: list[tuple[Value, ...]], most: int
) -> tuple[bool, Kind]:
    """Walk the rounds of a comprehension: each by itself if the items and the filters are known.

    Args:
        frame: the frame to evaluate in.
        node: the comprehension.
        generators: the ``for`` parts left to walk.
        rounds: gets the values that each round makes: an element, or a key with an element.
        most: the most items of a ``for`` part that are walked one by one.

    Returns:
        True if the rounds are known one by one, and the kind that decides how many there are.
    """
    if not generators:
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        rounds.append(tuple(frame.walk.value(frame, part) for part in parts))
        return True, Kind.SAFE
    part, *inner = generators
    whole = as_sequence(frame.walk.value(frame, part.iter))
    frame.report(part.iter, "comprehension", whole.length)
    items = whole.items if whole.items is not None and len(whole.items) <= most else None
    complete, length = items is not None, whole.length
    for item in [whole.each] if items is None else items:
        before, frame.variables = frame.variables, dict(frame.variables)
        frame.walk.assign(frame, part.target, item)
        for clause in part.ifs:
            outcome = test(frame, clause)
            frame.report(clause, "if in a comprehension", truth_kind(outcome))
            length = max(length, truth_kind(outcome), Kind.CONFIG)
            if truth(outcome) is False:
                break
            complete &= truth(outcome) is True
            frame.variables = narrowed(frame, clause, True)
        else:
            known, kind = _walk_rounds(frame, node, inner, rounds, most // max(1, len(items or ())))
            complete, length = complete and known, max(length, kind)
        frame.variables = before
    return complete, length
