"""What one gets by going through a value, and what Python's functions that go through things give."""

from __future__ import annotations

import ast
from typing import Any, Final

from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame
from hookpatch_export._join import join, sequence
from hookpatch_export._number import number_kind
from hookpatch_export._question import all_known, content_kind, objects, truth_kind
from hookpatch_export._value import (
    CONFIG,
    EMPTY,
    NONE,
    Args,
    Choice,
    Instance,
    Known,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_SHORT: Final = 4  # the numbers of a range up to that length are known one by one
_CONTAINERS: Final = (list, tuple, set, frozenset)
_LONGEST: Final = 64  # of what is longer the items are not told apart


def as_sequence(value: Value) -> Seq:
    """Return what one gets by going through a value."""
    match value:
        case Seq():
            return value
        case Size():
            return Seq(None, Scalar(value.sizes), Kind.CONFIG)
        case Tensor():
            rank = None if value.rank is None else value.rank - 1
            part = Tensor(value.sizes, value.last, value.truth, rank, value.values)
            return Seq(None, part, value.sizes)
        case Table():
            keys = sequence(Known(key) for key, _ in value.items)
            return keys if value.each is None else Seq(None, CONFIG, Kind.CONFIG)
        case Known(obj=obj):
            return _as_sequence_of(obj, value.kind)
        case Choice():
            parts = [as_sequence(one) for one in value.among if one != NONE]
            whole = join(parts)
            return whole if isinstance(whole, Seq) else Seq(None, Unknown(content_kind(whole)), content_kind(whole))
        case Instance():
            held = value.attributes.get("*")
            if isinstance(held, Seq):
                return held
            return Seq(None, join(value.attributes.values()) if value.attributes else EMPTY, Kind.SAFE)
    return Seq(None, Unknown(truth_kind(value)), truth_kind(value))


def _as_sequence_of(obj: Any, kind: Kind) -> Seq:
    if isinstance(obj, tuple | list | range | dict | set | frozenset | str) and len(obj) <= _LONGEST:
        return sequence(value_of(one, kind) for one in obj)
    if (modules := getattr(obj, "_modules", None)) is not None:
        return sequence(Known(one, Kind.CONFIG) for one in modules.values())
    return Seq(None, CONFIG, Kind.CONFIG)


def element_of(value: Value) -> Value:
    """Return what any one of a value's items is."""
    return as_sequence(value).each


def iterate(frame: Frame, node: ast.AST, function: Any, args: Args) -> Value:
    """Return what ``range``, ``zip``, ``list`` and the like give: an iterator, or a container of its items.

    Args:
        frame: where it is called.
        node: the call.
        function: the builtin.
        args: what it gets.
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
    if function in _CONTAINERS and whole.length >= Kind.SHAPE and _runs_through_sizes(node, args[0]):
        frame.found(node, f"{function.__name__}()", whole.length)
    if function is sorted and (kind := number_kind(whole)) >= Kind.SHAPE:
        frame.found(node, "sorted()", kind)
    in_order = function not in (set, frozenset, sorted)
    return whole if in_order else Seq(None, whole.each, whole.length)


def _runs_through_sizes(node: ast.AST, given: Value) -> bool:
    """Whether a container is filled from a range or a tensor; a list has got its length before."""
    match node:
        case ast.Call(args=[ast.Call(func=ast.Name(id="range")), *_]):
            return True
    return isinstance(given, Tensor)


def _range(args: Args) -> Seq:
    kind = max(map(truth_kind, args), default=Kind.SAFE)
    if all_known(args):
        try:
            numbers = range(*objects(args))
        except Exception:
            return Seq(None, CONFIG, Kind.CONFIG)
        if len(numbers) <= _SHORT:
            return Seq(tuple(Known(one, kind) for one in numbers), Scalar(kind), kind)
    kind = max(kind, Kind.CONFIG)
    return Seq(None, Scalar(kind), kind)


def _zip(args: Args) -> Seq:
    parts = [as_sequence(one) for one in args]
    each = sequence([one.each for one in parts])
    length = max(one.length for one in parts)
    if any(one.items is None for one in parts):
        return Seq(None, each, length)
    rows = zip(*(one.items or () for one in parts), strict=False)
    return Seq(tuple(sequence(row) for row in rows), each, length)


def _mapped(frame: Frame, node: ast.AST, function: Any, called: Value, args: Args) -> Seq:
    parts = [as_sequence(one) for one in args]
    length = max(one.length for one in parts)
    given = frame.walk.call(frame, node, called, [one.each for one in parts], {}) if called != NONE else CONFIG
    return Seq(None, given, length) if function is map else Seq(None, parts[0].each, max(length, truth_kind(given)))


def _enumerated(whole: Seq) -> Seq:
    numbered = sequence([Scalar(max(whole.length, Kind.CONFIG)), whole.each])
    if whole.items is None:
        return Seq(None, numbered, whole.length)
    return Seq(tuple(sequence([Known(i), one]) for i, one in enumerate(whole.items)), numbered, whole.length)
