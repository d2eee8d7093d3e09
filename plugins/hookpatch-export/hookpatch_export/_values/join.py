"""Join alternatives to one value, where branches meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.questions import alternatives, has_tensor, is_none, truth_kind
from hookpatch_export._values.value import (
    EMPTY,
    PLAIN,
    Choice,
    Known,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    TrueIn,
    Unknown,
    Value,
)

_MOST: Final = 8  # alternatives; more of them are joined to an unknown value


def join(values: Iterable[Value], under: Kind = Kind.SAFE) -> Value:
    """Return one value for several alternatives.

    Args:
        values: the alternatives.
        under: the kind that decides between the alternatives.
    """
    return reduce(lambda one, other: _join(one, other, under), values)


def _join(one: Value, other: Value, under: Kind) -> Value:
    if one == other or other == EMPTY:
        return one
    if one == EMPTY:
        return other
    match one, other:
        case Known(), Known() if one.same_object(other):
            return Known(one.obj, max(one.kind, other.kind))
        case Choice(), _:
            return _choice([*one.among, *alternatives(other)], under)
        case _, Choice():
            return _choice([*alternatives(one), *other.among], under)
        case Tensor(), Tensor():
            rank = one.rank if one.rank == other.rank else None
            last = max(one.last, other.last)
            values = max(one.values, other.values)
            return Tensor(max(one.sizes, other.sizes), last, one.truth and other.truth, rank, values)
        case Size(), Size():
            return Size(max(one.sizes, other.sizes), max(one.last, other.last))
        case Seq(), Seq():
            return _join_sequences(one, other, under)
        case Table(), Table():
            return _join_tables(one, other, under)
        case (Unknown(), _) | (_, Unknown()) if not (has_tensor(one) or has_tensor(other)):
            return Unknown(max(truth_kind(one), truth_kind(other), under))
        case _ if _is_plain(one) and _is_plain(other):
            return Scalar(max(truth_kind(one), truth_kind(other), under))
    return _choice([one, other], under)


def _choice(values: list[Value], under: Kind) -> Value:
    """Join values that are alike, and keep the rest apart."""
    apart: list[Value] = []
    for value in values:
        for place, other in enumerate(apart):
            if value == other or (type(value) is type(other) and _alike(value, other)):
                apart[place] = _join(other, value, under)
                break
        else:
            apart.append(value)
    if len(apart) > _MOST:
        tensors = [one for one in apart if isinstance(one, Tensor)]
        rest = Unknown(max([under, *(truth_kind(one) for one in apart if not has_tensor(one))]))
        return Choice((*tensors, rest)) if tensors else rest
    return apart[0] if len(apart) == 1 else Choice(tuple(apart))


def _alike(one: Value, other: Value) -> bool:
    if isinstance(one, Known):
        return isinstance(other, Known) and (one.same_object(other) or (_is_plain(one) and _is_plain(other)))
    return isinstance(one, Tensor | Size | Seq | Table | Scalar | Unknown)


def _is_plain(value: Value) -> bool:
    """Return True if a value is a number, a text or a truth value; None is not."""
    if isinstance(value, Known):
        return isinstance(value.obj, PLAIN) and value.obj is not None
    return isinstance(value, Scalar | TrueIn)


def _join_sequences(one: Seq, other: Seq, under: Kind) -> Seq:
    each = _join(one.each, other.each, under)
    length = max(one.length, other.length)
    if one.items is not None and other.items is not None and len(one.items) == len(other.items):
        return Seq(tuple(_join(a, b, under) for a, b in zip(one.items, other.items, strict=True)), each, length)
    start = zip(known_start(one), known_start(other), strict=False)
    return Seq(None, each, max(length, under), tuple(_join(a, b, under) for a, b in start))


def _join_tables(one: Table, other: Table, under: Kind) -> Table:
    left: dict[Any, Value] = dict(one.items)
    right: dict[Any, Value] = dict(other.items)
    rest: list[Value] = [each for each in (one.each, other.each) if each is not None]
    items = {key: _join(value, right.get(key, value), under) for key, value in left.items()}
    return Table(tuple({**right, **items}.items()), join(rest, under) if rest else None)


def known_start(whole: Seq) -> tuple[Value, ...]:
    """Return the items that a tuple or list certainly begins with."""
    return whole.start if whole.items is None else whole.items


def sequence(items: Iterable[Value]) -> Seq:
    """Return a tuple of some items."""
    items = tuple(items)
    return Seq(items, join(items) if items else EMPTY)


def map_alternatives(value: Value, function: Callable[[Value], Value]) -> Value:
    """Return the joined results of a function for all alternatives of a value; for None only if there is no other."""
    some = [one for one in alternatives(value) if not is_none(one)]
    return join(function(one) for one in some or [value])


def without_none(value: Value) -> Value:
    """Return a value with the alternative None left out."""
    some = [one for one in alternatives(value) if not is_none(one)]
    return join(some) if some else value
