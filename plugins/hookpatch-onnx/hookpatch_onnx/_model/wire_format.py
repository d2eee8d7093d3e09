"""Cut the data of weights out of a serialized ONNX model, without reading the data.

The bytes are walked field by field in protobuf's encoding (https://protobuf.dev/programming-guides/encoding); onnx's
descriptors say which message a field holds. In a file that is mapped into memory, the pages with weights are not
touched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import onnx

SMALL: Final = 16  # elements: shapes, axes and scalars are kept, since they belong to the structure
DATA: Final = frozenset(
    {"raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data", "external_data"}
)
_TENSOR: Final = onnx.TensorProto.DESCRIPTOR
_DIMS: Final = _TENSOR.fields_by_name["dims"].number
_DATA_NUMBERS: Final = frozenset(_TENSOR.fields_by_name[name].number for name in DATA)


class Field(NamedTuple):
    """A field of a message: its number and kind, and where it begins, its payload begins, and it ends."""

    number: int
    kind: int  # 0: a number, 1: eight bytes, 2: bytes with their length before them, 5: four bytes
    start: int
    payload: int
    end: int


def without_weights(model: memoryview) -> bytes:
    """Return a serialized ``ModelProto`` in which tensors of more than 16 elements have no data.

    Args:
        model: the serialized model.

    Raises:
        ValueError: the bytes are not in protobuf's encoding.
    """
    return b"".join(_small_parts(model, 0, len(model), onnx.ModelProto.DESCRIPTOR))


def _small_parts(view: memoryview, start: int, end: int, message: Any) -> list[bytes]:
    fields = list(fields_of(view, start, end))
    if message is _TENSOR and math.prod(dims_of(view, fields)) > SMALL:
        fields = [field for field in fields if field.number not in _DATA_NUMBERS]
    parts: list[bytes] = []
    for field in fields:
        inner = _message_of(message, field)
        if inner is None:
            parts.append(bytes(view[field.start : field.end]))
            continue
        content = b"".join(_small_parts(view, field.payload, field.end, inner))
        parts += [number(field.number << 3 | 2), number(len(content)), content]
    return parts


def _message_of(message: Any, field: Field) -> Any:
    """Return the descriptor of a field's message if the message can hold a tensor, else None."""
    declared = message.fields_by_number.get(field.number)
    inner = None if declared is None or field.kind != 2 else declared.message_type
    return inner if inner is not None and inner.name in _HOLD_TENSORS else None


def _hold_tensors(message: Any, on_the_way: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the messages that can hold a tensor: of this message and of the messages in it."""
    if message is _TENSOR:
        return {message.name}
    inner = [field.message_type for field in message.fields if field.message_type is not None]
    way = on_the_way | {message.name}
    names = set().union(*(_hold_tensors(kind, way) for kind in inner if kind.name not in way))
    return names | {message.name} if names else names


_HOLD_TENSORS: Final = _hold_tensors(onnx.ModelProto.DESCRIPTOR)


def fields_of(view: memoryview, offset: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message.

    Raises:
        ValueError: the bytes are not in protobuf's encoding.
    """
    while offset < end:
        start = offset
        tag, offset = _read_number(view, offset, end)
        number, kind = tag >> 3, tag & 7
        payload = offset
        if kind == 0:
            _, offset = _read_number(view, offset, end)
        elif kind == 1:
            offset += 8
        elif kind == 2:
            length, payload = _read_number(view, offset, end)
            offset = payload + length
        elif kind == 5:
            offset += 4
        else:
            raise ValueError(f"no field begins at byte {start}")
        if offset > end or number == 0:
            raise ValueError(f"the field at byte {start} has no end")
        yield Field(number, kind, start, payload, offset)


def dims_of(view: memoryview, fields: list[Field]) -> Iterator[int]:
    """Yield the dimensions of a tensor, from the fields of its message."""
    for field in fields:
        offset = field.payload
        while field.number == _DIMS and offset < field.end:  # packed or not
            dim, offset = _read_number(view, offset, field.end)
            yield dim


def _read_number(view: memoryview, offset: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while offset < end and shift < 70:
        byte = view[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
    raise ValueError(f"the number before byte {offset} has no end")


def number(value: int) -> bytes:
    """Return a number in protobuf's encoding."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
