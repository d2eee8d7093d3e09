"""Read a model without its weights: from a file, from bytes, or from a loaded model."""

from __future__ import annotations

import math
import mmap
import os
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # what onnx brings has no stubs

from hookpatch_onnx._model.wire_format import SMALL, without_weights
from hookpatch_onnx.errors import ModelFileError


def read(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Return the model in a file; weights, in the file or beside the file, are not read.

    Raises:
        ModelFileError: the file cannot be read, or is not an ONNX model.
    """
    try:
        if Path(path).is_dir():
            raise ModelFileError(path, "is a folder, not an ONNX model")
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise ModelFileError(path, "is empty, not an ONNX model; did the export end with an error?")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                return parse(view, path)
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None


def parse(model: memoryview, path: object) -> onnx.ModelProto:
    """Return a serialized model.

    Args:
        model: the serialized model.
        path: where the model comes from, for the message.

    Raises:
        ModelFileError: the bytes are no ONNX model.
    """
    try:
        proto = onnx.ModelProto()
        proto.ParseFromString(without_weights(model))
    except (ValueError, DecodeError):
        proto.Clear()
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelFileError(path, f"is not an ONNX model: {_what_else(bytes(model[:64]))}")
    return proto


def _what_else(start: bytes) -> str:
    """Return the likely kind of a file by its first bytes, and what to do."""
    if start.startswith(b"PK"):
        return "the file is a zip file of torch.save or torch.export.save; export the model with torch.onnx.export"
    if start.startswith(b"version https://git-lfs"):
        return "it is a pointer of Git LFS; fetch the file itself with git lfs pull"
    if start.lstrip()[:1] in (b"{", b"<") or (start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start)):
        return "the file is text; give the binary .onnx file"
    return "the file has no graph with an opset"


def pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model without the data of its weights; the model itself is not changed."""
    copy = onnx.ModelProto()
    _copy(model, copy)
    return copy


def _copy(source: Any, target: Any) -> None:
    if isinstance(source, onnx.TensorProto) and math.prod(source.dims) > SMALL:
        target.name, target.data_type = source.name, source.data_type
        target.dims.extend(source.dims)
        return
    for field, value in source.ListFields():
        is_repeated = hasattr(value, "extend")  # field.is_repeated is not in older releases of protobuf
        if field.message_type is not None:
            part = getattr(target, field.name)
            if is_repeated:
                for element in value:
                    _copy(element, part.add())
            else:
                part.SetInParent()
                _copy(value, part)
        elif is_repeated:
            getattr(target, field.name).extend(value)
        else:
            setattr(target, field.name, value)
