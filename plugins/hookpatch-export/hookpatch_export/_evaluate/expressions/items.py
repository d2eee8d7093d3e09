"""Read an item, and set an item of a container."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any, Final

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import belongs_to_torch
from hookpatch_export._torch_rules.tensors import indexed
from hookpatch_export._values.elements import as_sequence
from hookpatch_export._values.join import join, map_alternatives, sequence
from hookpatch_export._values.questions import alternatives, truth_kind
from hookpatch_export._values.tensor_sizes import size_at
from hookpatch_export._values.value import (
    PLAIN,
    UNKNOWN,
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

_NO_KEY: Final = object()  # a key that is not known
_CONTAINERS: Final = (torch.nn.ModuleDict, torch.nn.ModuleList, torch.nn.Sequential, *PLAIN, tuple, list, Mapping)


def item(frame: Frame, node: ast.AST, owner: Value, index: Value) -> Value:
    """Return the value of ``owner[index]``."""
    return map_alternatives(owner, lambda one: _item(frame, node, one, index))


def _item(frame: Frame, node: ast.AST, owner: Value, index: Value) -> Value:
    known = index.obj if isinstance(index, Known) else _NO_KEY
    match owner:
        case Tensor():
            return indexed(frame, node, owner, index)
        case Size():
            if isinstance(known, slice):
                return Size(owner.sizes, owner.last if known.stop is None else owner.sizes)
            return Scalar(size_at(owner, known))
        case Seq():
            _decides(frame, node, index)
            return _of_sequence(owner, known)
        case Table():
            _decides(frame, node, index)
            held: dict[Any, Value] = dict(owner.items)
            if known is not _NO_KEY and _hashable(known) and known in held:
                return held[known]
            rest = [*held.values(), *([owner.each] if owner.each is not None else [])]
            if isinstance(known, int) and known < len(held):  # an output of transformers takes numbers, too
                return list(held.values())[known]
            return join(rest) if rest else UNKNOWN
        case Known():
            _decides(frame, node, index)
            return _of_container(frame, node, owner, index)
        case Instance():
            if "*" in owner.attributes:
                return _item(frame, node, owner.attributes["*"], index)
            if issubclass(owner.cls, dict):  # a model's output takes names and numbers
                return _item(frame, node, Table(tuple(owner.attributes.items())), index)
            found = inspect.getattr_static(owner.cls, "__getitem__", None)
            if isinstance(found, FunctionType) and not belongs_to_torch(found.__module__):
                return frame.walk.call(frame, node, Known(found), [owner, index], {})
            if isinstance(known, int) and known < len(owner.attributes):
                return list(owner.attributes.values())[known]
            return join(owner.attributes.values()) if owner.attributes else UNKNOWN
    return owner if isinstance(owner, Unknown) else Scalar(max(truth_kind(owner), truth_kind(index)))


def _decides(frame: Frame, node: ast.AST, index: Value) -> None:
    """Report a size or a tensor used as the index of a list or the key of a dict: Python makes a number of it."""
    kind = truth_kind(index) if isinstance(index, Tensor | Scalar) else Kind.SAFE
    if kind >= Kind.SHAPE:
        frame.report(node, "[index]", kind)


def _of_sequence(owner: Seq, known: object) -> Value:
    if owner.items is not None:
        try:
            if isinstance(known, slice):
                return sequence(owner.items[known])
            if isinstance(known, int):
                return owner.items[known]
        except IndexError:
            return owner.each
    if isinstance(known, int) and 0 <= known < len(owner.start):
        return owner.start[known]
    return Seq(None, owner.each, owner.length) if isinstance(known, slice) else owner.each


def _of_container(frame: Frame, node: ast.AST, owner: Known, index: Value) -> Value:
    obj = owner.obj
    if isinstance(index, Known):
        if isinstance(obj, _CONTAINERS):
            try:
                return value_of(obj[index.obj])  # type: ignore[index]
            except Exception:
                return UNKNOWN
        found = inspect.getattr_static(type(obj), "__getitem__", None)
        if isinstance(found, FunctionType):
            return frame.walk.call(frame, node, Known(found), [owner, index], {})
        return UNKNOWN
    if isinstance(obj, Mapping | torch.nn.ModuleDict) and len(obj) <= 64:
        return join([value_of(one) for one in list(obj.values())] or [UNKNOWN])
    if isinstance(obj, Mapping):
        return UNKNOWN
    return as_sequence(owner).each


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def set_item(owner: Value, index: Value, value: Value) -> Value:
    """Return a container after ``owner[index] = value``."""
    match owner:
        case Table() if isinstance(index, Known) and _hashable(index.obj):
            return Table(tuple({**dict(owner.items), index.obj: value}.items()), owner.each)
        case Table():
            return Table(owner.items, value if owner.each is None else join([owner.each, value]))
        case Seq():
            return Seq(None, join([owner.each, value]), owner.length)
        case Instance():
            if isinstance(index, Known) and isinstance(index.obj, str):
                owner.attributes[index.obj] = value
            return owner
        case Choice():
            return join(set_item(one, index, value) for one in alternatives(owner))
    return owner
