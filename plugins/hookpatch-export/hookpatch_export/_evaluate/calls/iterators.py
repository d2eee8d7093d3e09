"""Evaluate built-in functions that go through containers: ``range``, ``zip``, ``map``, ``list``."""

from __future__ import annotations

import ast
import itertools
from typing import Any, Final

from hookpatch_export._evaluate.calls.numeric import number_kind
from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import in_any_order, sequence
from hookpatch_export._values.questions import all_known, objects, truth_kind
from hookpatch_export._values.value import (
    CONFIG,
    NONE,
    Args,
    Instance,
    Known,
    Scalar,
    Seq,
    Tensor,
    Value,
)

_SHORT: Final = 4  # the numbers of a range up to that length are known one by one
_CONTAINERS: Final = (list, tuple, set, frozenset)


def iterate(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    """Return the result of ``range``, ``zip``, ``list`` and the like: an iterator, or a container of the items.

    Args:
        frame: the frame of the caller.
        node: the call.
        function: the builtin.
        args: the positional arguments.
    """
    if function is range:
        return _range(args)
    if not args:
        return sequence([])
    if function is zip:
        return _zip(args)
    if function in (map, filter) and len(args) >= 2:
        return _mapped(frame, node, function, args[0], args[1:])
    whole = as_sequence(args[0])
    if function is enumerate:
        return _enumerated(whole)
    if function is reversed and whole.items is not None:
        return Seq(whole.items[::-1], whole.each, whole.length)
    if function is iter and isinstance(args[0], Tensor) and whole.length >= Kind.SHAPE:
        frame.report(node, "iter()", whole.length)
    if function in _CONTAINERS and whole.length >= Kind.SHAPE and runs_through_sizes(frame, node, args[0]):
        frame.report(node, f"{function.__name__}()", whole.length)
    if function is sorted and (kind := number_kind(whole)) >= Kind.SHAPE:
        frame.report(node, "sorted()", kind)
    if function in (set, frozenset):
        return Seq(None, whole.each, whole.length)
    return in_any_order(whole) if function is sorted else whole


def runs_through_sizes(frame: Frame, node: ast.AST, container: Value) -> bool:
    """Return True if a container is filled from a range or a tensor; a list already had its length before."""
    match node:
        case ast.Call(args=[ast.Call(func=ast.Name(id="range")), *_]):
            return True
        case ast.Call(args=[ast.Call(func=ast.Name(id="enumerate" | "zip"), args=[ast.Name() as name, *_])]):
            container = frame.walk.value(frame, name)
    return isinstance(container, Tensor) or (isinstance(container, Instance) and container.cls is itertools.groupby)


def _range(args: Args) -> Seq:
    kind = max(map(truth_kind, args), default=Kind.SAFE)
    if all_known(args):
        try:
            numbers = range(*objects(args))
        except Exception:
            return Seq(None, CONFIG, Kind.CONFIG)
        if len(numbers) <= _SHORT:
            return Seq(tuple(Known(number, kind) for number in numbers), Scalar(kind), kind)
    kind = max(kind, Kind.CONFIG)
    return Seq(None, Scalar(kind), kind)


def _zip(args: Args) -> Seq:
    parts = [as_sequence(arg) for arg in args]
    each = sequence([part.each for part in parts])
    length = max(part.length for part in parts)
    if any(part.items is None for part in parts):
        return Seq(None, each, length)
    rows = zip(*(part.items or () for part in parts), strict=False)
    return Seq(tuple(sequence(row) for row in rows), each, length)


def _mapped(frame: Frame, node: ast.AST, function: Any, called: Value, args: Args) -> Seq:
    parts = [as_sequence(arg) for arg in args]
    if function is map and all(part.items is not None for part in parts):
        rows = zip(*(part.items or () for part in parts), strict=False)
        return sequence(frame.walk.call(frame, node, called, row, {}) for row in rows)
    length = max(part.length for part in parts)
    result = frame.walk.call(frame, node, called, [part.each for part in parts], {}) if called != NONE else CONFIG
    return Seq(None, result, length) if function is map else Seq(None, parts[0].each, max(length, truth_kind(result)))


def _enumerated(whole: Seq) -> Seq:
    numbered = sequence([Scalar(max(whole.length, Kind.CONFIG)), whole.each])
    if whole.items is None:
        return Seq(None, numbered, whole.length)
    return Seq(tuple(sequence([Known(i), item]) for i, item in enumerate(whole.items)), numbered, whole.length)
