"""Which tensor is meant among several values, and what its sizes and numbers hang on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookpatch_export._finding import Kind
from hookpatch_export._join import join
from hookpatch_export._question import alternatives, content_kind, has_tensor
from hookpatch_export._value import Args, Choice, Instance, Scalar, Seq, Size, Table, Tensor, Unknown, Value


def first_tensor(values: Args) -> Tensor:
    """Return the first tensor, or what is in the first tuple of tensors; if there is none, one that came in."""
    for value in values:
        if isinstance(value, Seq):
            value = value.each
        for one in alternatives(value):
            if isinstance(one, Tensor):
                return one
    return Tensor()


def tensor_like(*values: Value) -> Tensor:
    """Return the tensor that arithmetic of these gives."""
    tensors = [one for value in values for one in alternatives(value) if isinstance(one, Tensor)]
    whole: Value = join(tensors or [Tensor()])
    sizes = max([one.sizes for one in tensors], default=Kind.SHAPE)
    last = max([one.last for one in tensors], default=Kind.SHAPE)
    ranks = {one.rank for one in tensors}
    rank = None if None in ranks or not ranks else max(rank for rank in ranks if rank is not None)
    return Tensor(sizes, last, isinstance(whole, Tensor) and whole.truth, rank, values_of(values))


def values_of(values: Iterable[Value]) -> Kind:
    """Return what the numbers of a tensor hang on that are computed of these."""
    kinds = [_numbers(one) for value in values for one in alternatives(value)]
    kind = max(kinds, default=Kind.CONFIG)
    return Kind.UNBACKED if kind is Kind.SHAPE else kind


def _numbers(value: Value) -> Kind:
    match value:
        case Tensor():
            return value.values
        case Seq() if has_tensor(value):
            return values_of(value.items if value.items is not None else [value.each])
        case Table() | Instance():
            return Kind.DATA if has_tensor(value) else Kind.CONFIG
    return max(Kind.CONFIG, content_kind(value))


def sizes_of(value: Value) -> Kind:
    """Return what the sizes of a result hang on, as far as this argument goes."""
    match value:
        case Tensor():
            return value.sizes
        case Seq():
            return max(Kind.CONFIG, *map(sizes_of, value.items)) if value.items else sizes_of(value.each)
        case Scalar() | Size() | Unknown():
            return content_kind(value)
        case Choice():
            return max(Kind.CONFIG, *map(sizes_of, value.among))
    return Kind.CONFIG


def size_at(tensor: Tensor | Size, dim: Any) -> Kind:
    """Return what one size hangs on."""
    rank = tensor.rank if isinstance(tensor, Tensor) else None
    if dim == -1 or (rank is not None and dim == rank - 1):
        return tensor.last
    return tensor.sizes
