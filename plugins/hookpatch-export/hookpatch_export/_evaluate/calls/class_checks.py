"""Evaluate questions about a value's class: ``isinstance``, ``type``, ``hasattr``."""

from __future__ import annotations

import torch

from hookpatch_export._frames.frame import Frame
from hookpatch_export._values.questions import alternatives
from hookpatch_export._values.value import SAFE, Instance, Known, Scalar, Seq, Size, Table, Tensor, TrueIn, Value


def is_instance(value: Value, kinds: Value) -> Value:
    """Return the result of ``isinstance``; for torch's stand-ins of tensors, by the mode of capture."""
    answers = {_one_is_instance(alternative, kinds) for alternative in alternatives(value)}
    return answers.pop() if len(answers) == 1 else SAFE


def _one_is_instance(value: Value, kinds: Value) -> Value:
    classes = kinds.obj if isinstance(kinds, Known) else _classes(kinds)
    names = {cls.__name__ for cls in (classes if isinstance(classes, tuple) else (classes,)) if isinstance(cls, type)}
    if names == {"FakeTensor"}:
        return TrueIn(frozenset(["export", "onnx"])) if isinstance(value, Tensor) else Known(False)
    if names == {"Proxy"}:
        return Known(False)
    try:
        match value:
            case Known():
                return Known(isinstance(value.obj, classes), value.kind)
            case Tensor():
                return Known(issubclass(torch.Tensor, classes) or "Tensor" in names)
            case Instance():
                return Known(True) if issubclass(value.cls, classes) else SAFE
            case Table():
                return Known(issubclass(dict, classes))
            case Size():
                return Known(issubclass(torch.Size, classes))
            case Seq() if not issubclass(tuple, classes) and not issubclass(list, classes):
                return Known(False)
            case Seq() if issubclass(tuple, classes) and issubclass(list, classes):
                return Known(True)
            case Scalar() if not any(issubclass(cls, classes) for cls in (int, float, bool, str)):
                return Known(False)
    except TypeError:
        pass
    return SAFE


def _classes(kinds: Value) -> tuple[type, ...]:
    if isinstance(kinds, Seq) and kinds.items is not None:
        return tuple(kind.obj for kind in kinds.items if isinstance(kind, Known) and isinstance(kind.obj, type))
    return ()


def type_of(value: Value) -> Value:
    """Return a value's class, if known."""
    match value:
        case Known():
            return Known(type(value.obj))
        case Instance():
            return Known(value.cls)
    return SAFE


def has_attribute(frame: Frame, owner: Value, name: Value) -> Value:
    """Return the result of ``hasattr``."""
    if not isinstance(name, Known) or not isinstance(name.obj, str):
        return SAFE
    if isinstance(owner, Known):
        if frame.walk.written(owner.obj, name.obj) is not None:
            return SAFE
        try:
            return Known(hasattr(owner.obj, name.obj))
        except Exception:
            return SAFE
    if isinstance(owner, Tensor):
        return Known(hasattr(torch.Tensor, name.obj))
    return SAFE
