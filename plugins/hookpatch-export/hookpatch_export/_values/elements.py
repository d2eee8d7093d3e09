"""Return the elements of a value: what a loop over the value goes through."""

from __future__ import annotations

from typing import Any, Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.join import join, sequence
from hookpatch_export._values.questions import content_kind, truth_kind
from hookpatch_export._values.value import (
    CONFIG,
    EMPTY,
    NONE,
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

_LONGEST: Final = 64  # elements of a longer container are not distinguished


def as_sequence(value: Value) -> Seq:
    """Return the elements of a value as a sequence."""
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
            parts = [as_sequence(alternative) for alternative in value.among if alternative != NONE]
            whole = join(parts)
            return whole if isinstance(whole, Seq) else Seq(None, Unknown(content_kind(whole)), content_kind(whole))
        case Instance():
            items = value.attributes.get("*")
            if isinstance(items, Seq):
                return items
            return Seq(None, join(value.attributes.values()) if value.attributes else EMPTY, Kind.SAFE)
    return Seq(None, Unknown(truth_kind(value)), truth_kind(value))


def _as_sequence_of(obj: Any, kind: Kind) -> Seq:
    if isinstance(obj, tuple | list | range | dict | set | frozenset | str) and len(obj) <= _LONGEST:
        return sequence(value_of(element, kind) for element in obj)
    if (modules := getattr(obj, "_modules", None)) is not None:
        return sequence(Known(module, Kind.CONFIG) for module in modules.values())
    return Seq(None, CONFIG, Kind.CONFIG)


def element_of(value: Value) -> Value:
    """Return the value of any one element."""
    return as_sequence(value).each
