"""Ask a value: is it true, is it None, does it hold a tensor, and what kind decides."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._values.value import (
    PLAIN,
    Args,
    Bound,
    Choice,
    Instance,
    Known,
    Local,
    Scalar,
    Seq,
    Size,
    Table,
    Tensor,
    TrueIn,
    Unknown,
    Value,
)


def alternatives(value: Value) -> tuple[Value, ...]:
    """Return all alternatives of a value."""
    return tuple(value.among) if isinstance(value, Choice) else (value,)


def truth(value: Value) -> bool | None:
    """Return the truth of a value; None if not known."""
    match value:
        case Known():
            obj = value.obj
            if isinstance(obj, (*PLAIN, tuple, list, dict, set, frozenset)):
                return bool(obj)
            return True if isinstance(obj, type | FunctionType | torch.nn.Module) else None
        case Seq(items=items) if items is not None:
            return bool(items)
        case Tensor() | Size() | Scalar() | TrueIn() | Unknown() | Choice() | Seq() | Table() | Instance():
            return None
    return True


def truth_kind(value: Value) -> Kind:
    """Return the kind that the truth of a value depends on."""
    match value:
        case Known() | Scalar() | Unknown():
            return value.kind
        case Tensor():
            return value.values
        case Seq():
            return value.length
        case Choice():
            return max(map(truth_kind, value.among))
    return Kind.SAFE


def content_kind(value: Value) -> Kind:
    """Return the kind that the content of a value depends on, the numbers in tensors left aside."""
    match value:
        case Size():
            return value.sizes
        case Seq():
            return max(value.length, content_kind(value.each))
        case Tensor():
            return value.sizes
        case Choice():
            return max(map(content_kind, value.among))
    return truth_kind(value)


def is_mapping(value: Value) -> bool:
    """Return True for a dict, made in the call or known."""
    return isinstance(value, Table) or (isinstance(value, Known) and isinstance(value.obj, Mapping))


def has_tensor(value: Value) -> bool:
    """Return True if a value is a tensor, or a tuple, list or dict with one."""
    match value:
        case Tensor():
            return True
        case Seq():
            return has_tensor(value.each)
        case Table():
            return any(has_tensor(entry) for _, entry in value.items) or (
                value.each is not None and has_tensor(value.each)
            )
        case Choice():
            return any(map(has_tensor, value.among))
    return False


def is_none(value: Value) -> bool | None:
    """Return True if a value is None, False if it is not, None if not known."""
    answers = {_is_none_itself(alternative) for alternative in alternatives(value)}
    return answers.pop() if len(answers) == 1 else None


def _is_none_itself(value: Value) -> bool | None:
    match value:
        case Known():
            return value.obj is None
        case Scalar() | Unknown():
            return None
    return False


def all_known(values: Args) -> bool:
    """Return True if all values are known numbers, texts and the like."""
    return all(isinstance(value, Known) and isinstance(value.obj, (*PLAIN, tuple, list)) for value in values)


def objects(values: Args) -> list[Any]:
    """Return the objects of the known values."""
    return [value.obj for value in values if isinstance(value, Known)]


def is_function(value: Value) -> bool:
    """Return True if all alternatives of a value can be called and none is a class."""
    if isinstance(value, Known):
        return callable(value.obj) and not isinstance(value.obj, (type, *PLAIN))
    return isinstance(value, Local | Bound) or (isinstance(value, Choice) and all(map(is_function, value.among)))
