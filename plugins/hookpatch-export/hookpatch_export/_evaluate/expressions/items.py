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

_LONGEST: Final = 64  # items of a container that are looked at
_NO_KEY: Final = object()  # a key that is not known
_CONTAINERS: Final = (torch.nn.ModuleDict, torch.nn.ModuleList, torch.nn.Sequential, *PLAIN, tuple, list, Mapping)


def item(frame: Frame, node: ast.AST, owner: Value, index: Value) -> Value:
    """Return the value of ``owner[index]``."""
    return map_alternatives(owner, lambda alternative: _item(frame, node, alternative, index))


def _item(frame: Frame, node: ast.AST, owner: Value, index: Value) -> Value:
    key = index.obj if isinstance(index, Known) else _NO_KEY
    match owner:
        case Tensor():
            return indexed(frame, node, owner, index)
        case Size():
            if isinstance(key, slice):
                return Size(owner.sizes, owner.last if key.stop is None else owner.sizes)
            return Scalar(size_at(owner, key))
        case Seq():
            decides(frame, node, index)
            return _of_sequence(owner, key)
        case Table():
            decides(frame, node, index)
            entries: dict[Any, Value] = dict(owner.items)
            if key is not _NO_KEY and _hashable(key) and key in entries:
                return entries[key]
            values = [*entries.values(), *([owner.each] if owner.each is not None else [])]
            if isinstance(key, int) and key < len(entries):  # an output of transformers takes numbers, too
                return list(entries.values())[key]
            return join(values) if values else UNKNOWN
        case Known(obj=None):  # set where the scan does not see it, by a hook: code takes no item of None
            return Tensor()
        case Known():
            decides(frame, node, index)
            return _of_container(frame, node, owner, index)
        case Instance():
            if "*" in owner.attributes:
                return _item(frame, node, owner.attributes["*"], index)
            if issubclass(owner.cls, dict):  # a model's output takes names and numbers
                return _item(frame, node, Table(tuple(owner.attributes.items())), index)
            getter = inspect.getattr_static(owner.cls, "__getitem__", None)
            if isinstance(getter, FunctionType) and not belongs_to_torch(getter.__module__):
                return frame.walk.call(frame, node, Known(getter), [owner, index], {})
            if isinstance(key, int) and key < len(owner.attributes):
                return list(owner.attributes.values())[key]
            return join(owner.attributes.values()) if owner.attributes else UNKNOWN
    return owner if isinstance(owner, Unknown) else Scalar(max(truth_kind(owner), truth_kind(index)))


def decides(frame: Frame, node: ast.AST, index: Value) -> None:
    """Report a size or a tensor used as the index of a list or in the key of a dict: Python makes a number of it."""
    kind = truth_kind(index) if isinstance(index, Tensor | Scalar | Unknown) else Kind.SAFE
    if isinstance(index, Seq) and index.items is not None:  # a tensor in a key is hashed by its identity
        kind = max((truth_kind(part) for part in index.items if isinstance(part, Scalar)), default=Kind.SAFE)
    if kind >= Kind.SHAPE:
        frame.report(node, "[index]", kind)


def _of_sequence(owner: Seq, key: object) -> Value:
    if owner.items is not None:
        try:
            if isinstance(key, slice):
                return sequence(owner.items[key])
            if isinstance(key, int):
                return owner.items[key]
        except IndexError:  # of an empty list: the list is filled where the scan does not see it, by a hook
            return owner.each if owner.items else Tensor()
    if isinstance(key, int) and 0 <= key < len(owner.start):
        return owner.start[key]
    return Seq(None, owner.each, owner.length) if isinstance(key, slice) else owner.each


def _of_container(frame: Frame, node: ast.AST, owner: Known, index: Value) -> Value:
    obj = owner.obj
    if isinstance(index, Known):
        if isinstance(obj, _CONTAINERS):
            try:
                return value_of(obj[index.obj])  # type: ignore[index]
            except Exception:
                return UNKNOWN
        getter = inspect.getattr_static(type(obj), "__getitem__", None)
        if isinstance(getter, FunctionType):
            return frame.walk.call(frame, node, Known(getter), [owner, index], {})
        return UNKNOWN
    if isinstance(obj, Mapping | torch.nn.ModuleDict) and len(obj) <= _LONGEST:
        return join([value_of(element) for element in list(obj.values())] or [UNKNOWN])
    if isinstance(obj, Mapping):
        return UNKNOWN
    return as_sequence(owner).each


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def opened(container: Known) -> Value:
    """Return a known list, dict or set that the model changes: its items in the next call are not known."""
    elements = as_sequence(container)
    if isinstance(container.obj, Mapping):
        return Table((), join(map(value_of, list(container.obj.values())[:_LONGEST]) if container.obj else [UNKNOWN]))
    return Seq(None, join([elements.each, UNKNOWN]), Kind.CONFIG)


def keep_changed(frame: Frame, place: ast.expr, changed: Value) -> None:
    """Give a changed list or dict to the name, attribute or item that holds the container."""
    if isinstance(place, ast.Name) and place.id not in frame.variables:
        holder = frame.cells.get(place.id)
        if isinstance(holder, Known):
            frame.walk.write(holder, "", changed)
        elif place.id in frame.names:
            frame.walk.write(Known(frame.names), place.id, changed)
    if isinstance(place, ast.Name | ast.Attribute | ast.Subscript):
        frame.walk.assign(frame, place, changed)


def set_item(owner: Value, index: Value, value: Value) -> Value:
    """Return a container after ``owner[index] = value``."""
    match owner:
        case Table() if isinstance(index, Known) and _hashable(index.obj):
            return Table(tuple({**dict(owner.items), index.obj: value}.items()), owner.each)
        case Table():
            return Table(owner.items, value if owner.each is None else join([owner.each, value]))
        case Seq(items=items) if items:
            place = index.obj if isinstance(index, Known) else None
            if isinstance(place, int) and -len(items) <= place < len(items):
                return sequence([*items[:place], value, *items[place:][1:]])
            if not isinstance(place, slice):
                return sequence(join([item, value]) for item in items)
            return Seq(None, join([owner.each, as_sequence(value).each]), Kind.CONFIG)
        case Seq():
            return Seq(None, join([owner.each, value]), owner.length)
        case Instance():
            if isinstance(index, Known) and isinstance(index.obj, str):
                owner.attributes[index.obj] = value
            return owner
        case Known(obj=list() | dict()):
            return set_item(opened(owner), index, value)
        case Choice():
            return join(set_item(alternative, index, value) for alternative in alternatives(owner))
    return owner
