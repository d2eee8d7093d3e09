"""Read attributes without running the model's code."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._frames.source import belongs_to_torch
from hookpatch_export._torch_rules.tensors import attribute_of_tensor
from hookpatch_export._values.join import join, map_alternatives
from hookpatch_export._values.value import (
    CONFIG,
    PLAIN,
    UNKNOWN,
    Bound,
    Inherited,
    Instance,
    Known,
    Scalar,
    Table,
    Tensor,
    Unknown,
    Value,
    value_of,
)

_MISSING: Final = object()
_OF_TENSORS: Final = frozenset(["shape", "dtype", "device", "ndim", "is_cuda", "requires_grad"])


def attribute(frame: Frame, node: ast.AST, owner: Value, name: str, default: Value | None = None) -> Value:
    """Return the value of an attribute.

    Args:
        frame: the frame to evaluate in.
        node: the source that reads the attribute.
        owner: the object.
        name: the attribute's name.
        default: the value if the attribute is missing.
    """
    return map_alternatives(owner, lambda alternative: _attribute(frame, node, alternative, name, default))


def _attribute(frame: Frame, node: ast.AST, owner: Value, name: str, default: Value | None) -> Value:
    match owner:
        case Tensor():
            value = attribute_of_tensor(owner, name)
            if value is None and default is not None and not hasattr(torch.Tensor, name):
                return default
            return value if value is not None else Bound(Known(getattr(torch.Tensor, name, name)), (owner,))
        case Known():
            return _of_known(frame, node, owner, name, default)
        case Instance():
            return _of_instance(frame, node, owner, name, default)
        case Inherited():
            return _inherited(frame, node, owner, name)
        case Table():
            fields: dict[Any, Value] = dict(owner.items)
            return fields[name] if name in fields else Bound(Known(name), (owner,))
        case Unknown() if name in _OF_TENSORS:
            return attribute_of_tensor(Tensor(), name) or CONFIG
        case Unknown():
            return owner
    return Bound(Known(name), (owner,))  # a method of a builtin object


def _of_known(frame: Frame, node: ast.AST, owner: Known, name: str, default: Value | None) -> Value:
    obj = owner.obj
    written = frame.walk.written(obj, name)
    value = _attribute_of_object(frame, node, owner, name)
    if value is not None:
        return value if written is None else join([value, written])
    if written is not None:
        return written
    if default is not None:
        return default
    return Bound(Known(name), (owner,)) if isinstance(obj, PLAIN) else UNKNOWN


def _attribute_of_object(frame: Frame, node: ast.AST, owner: Known, name: str) -> Value | None:
    obj = owner.obj
    if isinstance(obj, torch.nn.Module):
        for group in ("_parameters", "_buffers", "_modules"):
            if name in obj.__dict__.get(group, ()):
                return value_of(obj.__dict__[group][name])
        if name == "training":
            return Scalar(Kind.SAFE) if obj.training else Known(False)
    if isinstance(obj, ModuleType | type | enum.Enum) or belongs_to_torch(type(obj).__module__):
        return _plainly(obj, name)
    inside = getattr(obj, "__dict__", {})
    if isinstance(inside, Mapping) and name in inside:
        return value_of(inside[name])
    class_value = inspect.getattr_static(type(obj), name, _MISSING)
    if class_value is _MISSING:
        return _plainly(obj, name)
    return _descriptor(frame, node, owner, class_value, name)


def _plainly(obj: Any, name: str) -> Value | None:
    """Read an attribute with ``getattr``: of modules, classes, and objects with a ``__getattr__``."""
    try:
        return value_of(getattr(obj, name))
    except Exception:
        return None


def _descriptor(frame: Frame, node: ast.AST, owner: Value, class_value: Any, name: str) -> Value:
    match class_value:
        case FunctionType():
            return Bound(Known(class_value), (owner,))
        case staticmethod():
            return Known(class_value.__func__)
        case classmethod():
            cls = owner.cls if isinstance(owner, Instance) else type(owner.obj) if isinstance(owner, Known) else object
            return Bound(Known(class_value.__func__), (Known(cls),))
        case property() if class_value.fget is not None:
            return frame.walk.call(frame, node, Known(class_value.fget), [owner], {})
    if (getter := getattr(class_value, "func", None)) is not None and type(class_value).__name__ == "cached_property":
        return frame.walk.call(frame, node, Known(getter), [owner], {})
    if hasattr(type(class_value), "__get__"):
        if isinstance(owner, Known):
            return _plainly(owner.obj, name) or UNKNOWN
        return Bound(Known(class_value), (owner,)) if callable(class_value) else UNKNOWN
    return value_of(class_value)


def _inherited(frame: Frame, node: ast.AST, owner: Inherited, name: str) -> Value:
    cls = owner.owner.cls if isinstance(owner.owner, Instance) else None
    if isinstance(owner.owner, Known):
        cls = owner.owner.obj if isinstance(owner.owner.obj, type) else type(owner.owner.obj)
    order = list(cls.__mro__) if cls is not None else []
    after = order[order.index(owner.after) + 1 :] if owner.after in order else []
    for base in after:
        if name in vars(base):
            if type(vars(base)[name]).__name__ in ("method_descriptor", "wrapper_descriptor"):
                return Bound(Known(vars(base)[name]), (owner.owner,))
            return _descriptor(frame, node, owner.owner, vars(base)[name], name)
    return UNKNOWN


def _of_instance(frame: Frame, node: ast.AST, owner: Instance, name: str, default: Value | None) -> Value:
    if name in owner.attributes:
        return _set_before(owner.attributes[name]) if owner.of_model else owner.attributes[name]
    if name == "training":
        return Scalar(Kind.SAFE)
    if name == "__class__":
        return Known(owner.cls)
    class_value = inspect.getattr_static(owner.cls, name, _MISSING)
    if class_value is not _MISSING and not isinstance(class_value, dataclasses.Field):
        return _descriptor(frame, node, owner, class_value, name)
    return default if default is not None else UNKNOWN


def _set_before(value: Value) -> Value:
    """Return an attribute that the model's ``__init__`` has set as a setting, even if its source has a literal."""
    if isinstance(value, Known) and value.kind is Kind.SAFE and value.obj is not None:
        return Known(value.obj, Kind.CONFIG)
    return value
