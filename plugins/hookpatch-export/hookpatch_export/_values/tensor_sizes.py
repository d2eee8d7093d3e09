"""Choose the tensor meant among several values, and compute the kinds of its sizes and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.join import join
from hookpatch_export._values.questions import alternatives, content_kind, has_tensor
from hookpatch_export._values.value import Args, Choice, Instance, Scalar, Seq, Size, Table, Tensor, Unknown, Value


def first_tensor(values: Args) -> Tensor:
    """Return the first tensor, or that in the first tuple of tensors; without any, a tensor like an input."""
    for value in values:
        if isinstance(value, Seq):
            value = value.each
        for alternative in alternatives(value):
            if isinstance(alternative, Tensor):
                return alternative
    return Tensor()


def tensor_like(*values: Value) -> Tensor:
    """Return the tensor that arithmetic of some values gives."""
    tensors = [tensor for value in values for tensor in alternatives(value) if isinstance(tensor, Tensor)]
    whole: Value = join(tensors or [Tensor()])
    sizes = max([tensor.sizes for tensor in tensors], default=Kind.SHAPE)
    last = max([tensor.last for tensor in tensors], default=Kind.SHAPE)
    ranks = {tensor.rank for tensor in tensors}
    rank = None if None in ranks or not ranks else max(rank for rank in ranks if rank is not None)
    return Tensor(sizes, last, isinstance(whole, Tensor) and whole.truth, rank, values_of(values))


def values_of(values: Iterable[Value]) -> Kind:
    """Return the kind of a tensor's numbers computed from some values."""
    kinds = [_numbers(alternative) for value in values for alternative in alternatives(value)]
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
    """Return the kind of a result's sizes, as far as one argument decides."""
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
    """Return the kind of one size."""
    rank = tensor.rank if isinstance(tensor, Tensor) else None
    if dim == -1 or (rank is not None and dim == rank - 1):
        return tensor.last
    return tensor.sizes
