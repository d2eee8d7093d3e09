"""Take the weights out of a serialized model, and put them back when the model has changed, without copying them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import onnx

from hookpatch_onnx._model.wire_format import DATA, SMALL, dims_of, fields_of, number

Weights: TypeAlias = Mapping[str, memoryview]  # the whole field of each initializer, by its name

_GRAPH: Final = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER: Final = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_TENSOR: Final = onnx.TensorProto.DESCRIPTOR.fields_by_name
_DATA: Final = frozenset(_TENSOR[name].number for name in DATA)
_FLOATS: Final = frozenset(
    getattr(onnx.TensorProto, name) for name in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "COMPLEX64", "COMPLEX128")
)


def taken_apart(model: memoryview) -> tuple[bytes, Weights]:
    """Return a model without the data of its weights, and the weights.

    A weight is an initializer of floats with more than 16 elements: no plugin reads its content.
    """
    weights: dict[str, memoryview] = {}
    parts: list[bytes | memoryview] = []
    for field in fields_of(model, 0, len(model)):
        if field.number != _GRAPH:
            parts.append(model[field.start : field.end])
            continue
        inner: list[bytes | memoryview] = []
        for subfield in fields_of(model, field.payload, field.end):
            whole = model[subfield.start : subfield.end]
            light = _light(model, subfield.payload, subfield.end) if subfield.number == _INITIALIZER else None
            if light is not None:
                weights[light.name] = whole
            inner += [whole] if light is None else _field(_INITIALIZER, [light.SerializeToString()])
        parts += _field(_GRAPH, inner)
    return b"".join(parts), weights


def joined(model: onnx.ModelProto, weights: Weights) -> Iterator[bytes | memoryview]:
    """Yield a serialized model in pieces, with its weights; the model is empty afterwards."""
    tensors: list[bytes | memoryview] = []
    for tensor in model.graph.initializer:
        weight = weights.get(tensor.name) if not any(len(getattr(tensor, name)) for name in DATA) else None
        tensors += _field(_INITIALIZER, [tensor.SerializeToString()]) if weight is None else [weight]
    del model.graph.initializer[:]
    graph = _field(_GRAPH, [model.graph.SerializeToString(), *tensors])
    model.ClearField("graph")
    yield model.SerializeToString()
    yield from graph


def digests(weights: Weights) -> dict[str, bytes]:
    """Return the hash of the data of each weight."""
    return {name: _digest(field) for name, field in weights.items()}


def _digest(weight: memoryview) -> bytes:
    (whole,) = fields_of(weight, 0, len(weight))
    data = hashlib.blake2b(digest_size=16)
    for field in fields_of(weight, whole.payload, whole.end):
        if field.number in _DATA:
            data.update(weight[field.payload : field.end])
    return data.digest()


def _light(model: memoryview, start: int, end: int) -> onnx.TensorProto | None:
    """Return a tensor without data; None if the tensor is no weight."""
    fields = list(fields_of(model, start, end))
    if math.prod(dims_of(model, fields)) <= SMALL:
        return None
    without_data = b"".join(model[field.start : field.end] for field in fields if field.number not in _DATA)
    tensor = onnx.TensorProto.FromString(without_data)
    return tensor if tensor.data_type in _FLOATS else None


def _field(which: int, payload: list[bytes | memoryview]) -> list[bytes | memoryview]:
    return [number(which << 3 | 2), number(sum(map(len, payload))), *payload]
