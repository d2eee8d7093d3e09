"""Join alternatives to one value, where branches meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.questions import alternatives, has_tensor, is_none, truth_kind
from hookpatch_export._values.value import (
    ANY,
    EMPTY,
    PLAIN,
    Choice,
    Keywords,
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

_LONGEST: Final = 64  # items of a list that is built item by item; of a longer one the number is not known
_MOST: Final = 8  # alternatives; more of them are joined to an unknown value


def join(values: Iterable[Value], under: Kind = Kind.SAFE) -> Value:
    """Return one value for several alternatives.

    Args:
        values: the alternatives.
        under: the kind that decides between the alternatives.
    """
    return reduce(lambda joined, value: _join(joined, value, under), values)


def _join(first: Value, second: Value, under: Kind) -> Value:
    if first == second or second == EMPTY:
        return first
    if first == EMPTY:
        return second
    match first, second:
        case Known(), Known() if first.same_object(second):
            return Known(first.obj, max(first.kind, second.kind))
        case Choice(), _:
            return _choice([*first.among, *alternatives(second)], under)
        case _, Choice():
            return _choice([*alternatives(first), *second.among], under)
        case Tensor(), Tensor():
            rank = first.rank if first.rank == second.rank else None
            last = max(first.last, second.last)
            values = max(first.values, second.values)
            return Tensor(max(first.sizes, second.sizes), last, first.truth and second.truth, rank, values)
        case Size(), Size():
            return Size(max(first.sizes, second.sizes), max(first.last, second.last))
        case Seq(), Seq():
            return _join_sequences(first, second, under)
        case Table(), Table():
            return _join_tables(first, second, under)
        case (Unknown(), _) | (_, Unknown()) if not (has_tensor(first) or has_tensor(second)):
            return Unknown(max(truth_kind(first), truth_kind(second), under))
        case _ if _is_plain(first) and _is_plain(second):
            return Scalar(max(truth_kind(first), truth_kind(second), under))
    return _choice([first, second], under)


def _choice(values: list[Value], under: Kind) -> Value:
    """Join values that are alike, and keep the rest apart."""
    apart: list[Value] = []
    for value in values:
        for place, member in enumerate(apart):
            if value == member or (type(value) is type(member) and _alike(value, member)):
                apart[place] = _join(member, value, under)
                break
        else:
            apart.append(value)
    if len(apart) > _MOST:
        tensors = [tensor for tensor in apart if isinstance(tensor, Tensor)]
        unknown = Unknown(max([under, *(truth_kind(member) for member in apart if not has_tensor(member))]))
        return Choice((*tensors, unknown)) if tensors else unknown
    return apart[0] if len(apart) == 1 else Choice(tuple(apart))


def _alike(first: Value, second: Value) -> bool:
    if isinstance(first, Known):
        return isinstance(second, Known) and (first.same_object(second) or (_is_plain(first) and _is_plain(second)))
    return isinstance(first, Tensor | Size | Seq | Table | Scalar | Unknown)


def _is_plain(value: Value) -> bool:
    """Return True if a value is a number, a text or a truth value; None is not."""
    if isinstance(value, Known):
        return isinstance(value.obj, PLAIN) and value.obj is not None
    return isinstance(value, Scalar | TrueIn)


def _join_sequences(first: Seq, second: Seq, under: Kind) -> Seq:
    each = _join(first.each, second.each, under)
    length = max(first.length, second.length)
    if first.items is not None and second.items is not None and len(first.items) == len(second.items):
        return Seq(tuple(_join(a, b, under) for a, b in zip(first.items, second.items, strict=True)), each, length)
    start = zip(known_start(first), known_start(second), strict=False)
    return Seq(None, each, max(length, under), tuple(_join(a, b, under) for a, b in start))


def _join_tables(first: Table, second: Table, under: Kind) -> Table:
    first_items: dict[Any, Value] = dict(first.items)
    second_items: dict[Any, Value] = dict(second.items)
    each_values: list[Value] = [each for each in (first.each, second.each) if each is not None]
    items = {key: _join(value, second_items.get(key, value), under) for key, value in first_items.items()}
    return Table(tuple({**second_items, **items}.items()), join(each_values, under) if each_values else None)


def known_start(whole: Seq) -> tuple[Value, ...]:
    """Return the items that a tuple or list certainly begins with."""
    return whole.start if whole.items is None else whole.items


def sequence(items: Iterable[Value]) -> Seq:
    """Return a tuple of some items."""
    items = tuple(items)
    return Seq(items, join(items) if items else EMPTY)


def concatenated(first: Seq, second: Seq) -> Seq:
    """Return the items of two tuples or lists, one after the other."""
    if first.items is not None and second.items is not None and len(first.items) + len(second.items) <= _LONGEST:
        return sequence([*first.items, *second.items])
    start = (*first.items, *known_start(second)) if first.items is not None else first.start
    return Seq(None, join([first.each, second.each]), max(first.length, second.length), start)


def in_any_order(whole: Seq) -> Seq:
    """Return a tuple or list of as many items, in an order that is not known."""
    items = whole.items
    return Seq(None if items is None else (whole.each,) * len(items), whole.each, whole.length)


def table_of(named: Keywords) -> Table:
    """Return the dict of a call's keyword arguments."""
    return Table(tuple((name, value) for name, value in named.items() if name != ANY), named.get(ANY))


def map_alternatives(value: Value, function: Callable[[Value], Value]) -> Value:
    """Return the joined results of a function for all alternatives of a value; for None only if there is no other."""
    candidates = [alternative for alternative in alternatives(value) if not is_none(alternative)]
    return join(function(candidate) for candidate in candidates or [value])


def without_none(value: Value) -> Value:
    """Return a value with the alternative None left out."""
    candidates = [alternative for alternative in alternatives(value) if not is_none(alternative)]
    return join(candidates) if candidates else value
