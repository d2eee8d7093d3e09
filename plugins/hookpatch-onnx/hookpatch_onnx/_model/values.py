"""Describe the values of a graph in words: types, small constants, attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, final

import numpy
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from hookpatch_onnx._model.wire_format import SMALL

Kind: TypeAlias = Literal["input", "constant", "node", "outer"]
Shape: TypeAlias = tuple[int | str | None, ...]


@final
@dataclass(frozen=True, slots=True)
class Value:
    """A value: what one edge of a graph carries.

    Attributes:
        name: the value's name, unique in the graph.
        kind: a graph input, a constant, a node's output, or a value of the outer graph.
        dtype: such as ``"float32"``, empty if unknown.
        shape: the dimensions, each a number, a name or None; None if the shape is unknown.
        data: the content of a small constant in words, else None.
        producer: the number of the node that computes the value, None if no node does.
        slot: the index among that node's outputs.
    """

    name: str
    kind: Kind
    dtype: str = ""
    shape: Shape | None = None
    data: str | None = None
    producer: int | None = None
    slot: int = 0

    @property
    def type(self) -> str:
        """Dtype and shape in words, such as ``float32[batch, 768]``."""
        if self.shape is None:
            return self.dtype
        return f"{self.dtype}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"

    @property
    def words(self) -> str:
        """The value without its name: the content of a small constant and the type, or the type alone."""
        return self.type if self.data is None else f"{self.data} ({self.type})"


def attribute_words(proto: AttributeProto) -> str:
    """Return an attribute's value in words, the same for the same value."""
    if proto.ref_attr_name:
        return f"the function's {proto.ref_attr_name}"
    value: Any = onnx.helper.get_attribute_value(proto) if proto.type not in _BY_TENSOR else None
    match proto.type:
        case AttributeProto.TENSOR:
            return constant("", proto.t).words
        case AttributeProto.SPARSE_TENSOR:
            return f"sparse {constant('', proto.sparse_tensor.values).words} in {list(proto.sparse_tensor.dims)}"
        case AttributeProto.TENSORS:
            return ", ".join(constant("", tensor).words for tensor in proto.tensors)
        case AttributeProto.TYPE_PROTO:
            return Value("", "input", *type_of(proto.tp)).type
        case AttributeProto.STRING:
            return value.decode(errors="replace")  # type: ignore[no-any-return]  # onnx types it as a union
        case AttributeProto.STRINGS:
            return ", ".join(text.decode(errors="replace") for text in value)
        case AttributeProto.FLOAT:
            return f"{value:.7g}"
        case AttributeProto.FLOATS:
            return _listed([f"{number:.7g}" for number in value])
        case AttributeProto.INTS:
            return _listed([str(number) for number in value])
    return str(value)


_BY_TENSOR: Final = (
    AttributeProto.TENSOR,
    AttributeProto.SPARSE_TENSOR,
    AttributeProto.TENSORS,
    AttributeProto.TYPE_PROTO,
)


def _listed(words: Sequence[str]) -> str:
    return f"[{', '.join(words)}]"


def constant_of(proto: onnx.NodeProto) -> Value:
    """Return the value of a ``Constant`` node, from whichever attribute holds the value."""
    name, attribute = proto.output[0], proto.attribute[0] if proto.attribute else AttributeProto()
    match attribute.name:
        case "value":
            return constant(name, attribute.t)
        case "sparse_value":
            return sparse_constant(name, attribute.sparse_tensor)
        case "value_float" | "value_int" | "value_string":
            dtype, shape = {"f": "float32", "i": "int64", "s": "string"}[attribute.name[6]], ()
        case "value_floats" | "value_ints" | "value_strings":
            dtype = {"f": "float32", "i": "int64", "s": "string"}[attribute.name[6]]
            return Value(
                name, "constant", dtype, (len(onnx.helper.get_attribute_value(attribute)),), attribute_words(attribute)
            )
        case _:
            return Value(name, "constant")
    return Value(name, "constant", dtype, shape, attribute_words(attribute))


def constant(name: str, tensor: TensorProto) -> Value:
    """Return a constant, with its content if the constant is small."""
    return Value(name, "constant", _dtype(tensor.data_type), tuple(tensor.dims), _content(tensor))


def sparse_constant(name: str, tensor: onnx.SparseTensorProto) -> Value:
    """Return a sparse constant, of which a model stores the values other than zero."""
    return Value(name, "constant", f"sparse {_dtype(tensor.values.data_type)}", tuple(tensor.dims))


def _content(tensor: TensorProto) -> str | None:
    """Return the content of a small tensor in words; None for a weight, or if the data are in another file."""
    if (
        math.prod(tensor.dims) > SMALL
        or tensor.data_location == TensorProto.EXTERNAL
        or not any(len(getattr(tensor, name)) for name in _DATA)
    ):
        return None
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind in "biuSUO":
        return str(array.tolist())
    digits: Any = {"float_kind": "{:.7g}".format}  # also for the floating dtypes that NumPy itself does not have
    return numpy.array2string(array.astype(numpy.float64), separator=", ", formatter=digits)


_DATA: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


def _dtype(number: int) -> str:
    """Return a dtype's name as NumPy has it."""
    try:
        name = str(TensorProto.DataType.Name(number)).lower()
    except ValueError:
        return f"dtype {number}"
    return {"float": "float32", "double": "float64"}.get(name, name)


def type_of(proto: onnx.TypeProto) -> tuple[str, Shape | None]:
    """Return the dtype of a type, and the shape if known."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        dtype = ("sparse " if kind.startswith("sparse") else "") + _dtype(tensor.elem_type)
        if not tensor.HasField("shape"):
            return dtype, None
        return dtype, tuple(
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim
        )
    if kind in ("sequence_type", "optional_type"):
        inner = Value("", "input", *type_of(getattr(proto, kind).elem_type)).type
        return f"{kind.removesuffix('_type')} of {inner}", None
    return (kind or "").removesuffix("_type"), None
