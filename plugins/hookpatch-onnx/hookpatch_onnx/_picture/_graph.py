"""A graph as it is compared and drawn: nodes, and values with their shapes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, final

import numpy
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from hookpatch_onnx._picture._wire import SMALL

Kind: TypeAlias = Literal["input", "constant", "node", "outer"]
Shape: TypeAlias = tuple[int | str | None, ...]

_COMMUTE: Final = frozenset(
    {"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min", "Mul"}
)
_COMMUTE_TOO: Final = frozenset({"Or", "Sum", "Xor"})


@final
@dataclass(frozen=True, slots=True)
class Value:
    """What goes along an edge.

    Attributes:
        name: its name, unique in its graph.
        kind: whether it is a graph input, a constant, a node's output, or of the graph around this one.
        dtype: such as ``"float32"``, empty if it is not known.
        shape: its dimensions, a number, a name or None each; None if it is not known.
        data: a small constant's content in words, None for all else.
        producer: the number of the node that makes it, None for what is no node's output.
        slot: which of the node's outputs it is.
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
        """The dtype and shape in words, such as ``float32[batch, 768]``."""
        if self.shape is None:
            return self.dtype
        return f"{self.dtype}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"

    @property
    def words(self) -> str:
        """What it is without its name: a small constant's content, or the type."""
        return self.type if self.data is None else f"{self.data} ({self.type})"


@final
@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph. A ``Constant`` is none: its output is a constant like an initializer.

    Attributes:
        index: its number in the graph.
        name: its own name, which may be empty.
        op: its operator, with the domain before it where that is not ONNX's own: ``com.microsoft.Gelu``.
        attributes: their values in words, by name.
        graphs: the graphs in it (of If, Loop, Scan), by the attribute's name.
        inputs: the names of its values in their order; empty for an optional one that is left out.
        outputs: likewise.
        notes: what its exporter and others have noted about it.
    """

    index: int
    name: str
    op: str
    attributes: dict[str, str]
    graphs: dict[str, onnx.GraphProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: dict[str, str]

    @property
    def commutes(self) -> bool:
        """Whether the order of its inputs means nothing."""
        return self.op in _COMMUTE or self.op in _COMMUTE_TOO

    @property
    def label(self) -> str:
        """How messages name it: by its first output, the one name that every node has."""
        return next((name for name in self.outputs if name), self.name)


@final
@dataclass(slots=True)
class Graph:
    """One graph: of a model, of a node, or the body of a local function.

    Attributes:
        nodes: its nodes, in the order in which they stand in the file.
        values: its values by name, those of an outer graph that it uses among them.
        inputs: the names of its inputs in their order.
        outputs: likewise.
        initializers: the names of its initializers; not those of ``Constant`` nodes.
        constants: how many ``Constant`` nodes it has.
        consumers: by value, who uses it: the node's number and which input it is there.
    """

    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    initializers: tuple[str, ...] = ()
    constants: int = 0
    consumers: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def constants_of(self, node: Node) -> Iterator[Value]:
        """Yield the constants among a node's inputs."""
        for name in node.inputs:
            if name and self.values[name].kind == "constant":
                yield self.values[name]


def graph_of(proto: onnx.GraphProto) -> Graph:
    """Return a model's graph, or one in a node."""
    graph = Graph()
    for tensor in proto.initializer:
        graph.values[tensor.name] = _constant(tensor.name, tensor)
    for sparse in proto.sparse_initializer:
        name, dtype = sparse.values.name, _dtype(sparse.values.data_type)
        graph.values[name] = Value(name, "constant", f"sparse {dtype}", tuple(sparse.dims))
    graph.initializers = tuple(graph.values)
    inputs = [info for info in proto.input if info.name not in graph.values]  # old files list initializers there, too
    for info in inputs:
        graph.values[info.name] = Value(info.name, "input", *_type(info.type))
    graph.inputs = tuple(info.name for info in inputs)
    graph.outputs = tuple(info.name for info in proto.output)
    known = {info.name: _type(info.type) for info in (*proto.value_info, *proto.output)}
    return _with_nodes(graph, proto.node, known)


def body_of(function: onnx.FunctionProto) -> Graph:
    """Return the body of a local function as a graph."""
    graph = Graph(inputs=tuple(function.input), outputs=tuple(function.output))
    graph.values = {name: Value(name, "input") for name in function.input}
    known = {info.name: _type(info.type) for info in function.value_info}
    return _with_nodes(graph, function.node, known)


def _with_nodes(graph: Graph, protos: Iterable[onnx.NodeProto], known: dict[str, tuple[str, Shape | None]]) -> Graph:
    for proto in protos:
        if proto.op_type == "Constant" and not proto.domain and len(proto.output) == 1:
            graph.constants += 1
            graph.values[proto.output[0]] = _constant_of(proto)
            continue
        node = _node(len(graph.nodes), proto)
        graph.nodes.append(node)
        for slot, name in enumerate(node.outputs):
            if name:
                dtype, shape = known.get(name, ("", None))
                graph.values[name] = Value(name, "node", dtype, shape, None, node.index, slot)
    for node in graph.nodes:
        for slot, name in enumerate(node.inputs):
            if name:
                graph.values.setdefault(name, Value(name, "outer"))
                graph.consumers.setdefault(name, []).append((node.index, slot))
    for name in graph.outputs:
        graph.values.setdefault(name, Value(name, "outer"))
    return graph


def _node(index: int, proto: onnx.NodeProto) -> Node:
    graphs = {one.name: one.g for one in proto.attribute if one.type == AttributeProto.GRAPH}
    for one in proto.attribute:
        graphs |= {f"{one.name}[{at}]": graph for at, graph in enumerate(one.graphs)}
    domain = "" if proto.domain in ("", "ai.onnx") else f"{proto.domain}."
    overload = f":{proto.overload}" if proto.overload else ""
    notes = {prop.key: prop.value for prop in proto.metadata_props}
    if proto.doc_string:
        notes["doc_string"] = proto.doc_string
    return Node(
        index=index,
        name=proto.name,
        op=f"{domain}{proto.op_type}{overload}",
        attributes={one.name: attribute_words(one) for one in proto.attribute if not (one.HasField("g") or one.graphs)},
        graphs=graphs,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        notes=notes,
    )


def attribute_words(proto: AttributeProto) -> str:
    """Return an attribute's value in words, the same for the same value."""
    if proto.ref_attr_name:
        return f"the function's {proto.ref_attr_name}"
    value: Any = onnx.helper.get_attribute_value(proto) if proto.type not in _BY_TENSOR else None
    match proto.type:
        case AttributeProto.TENSOR:
            return _constant("", proto.t).words
        case AttributeProto.SPARSE_TENSOR:
            return f"sparse {_constant('', proto.sparse_tensor.values).words} in {list(proto.sparse_tensor.dims)}"
        case AttributeProto.TENSORS:
            return ", ".join(_constant("", tensor).words for tensor in proto.tensors)
        case AttributeProto.TYPE_PROTO:
            return Value("", "input", *_type(proto.tp)).type
        case AttributeProto.STRING:
            return value.decode(errors="replace")  # type: ignore[no-any-return]  # onnx types it as a union
        case AttributeProto.STRINGS:
            return ", ".join(text.decode(errors="replace") for text in value)
        case AttributeProto.FLOAT:
            return f"{value:.7g}"
        case AttributeProto.FLOATS:
            return _listed([f"{one:.7g}" for one in value])
        case AttributeProto.INTS:
            return _listed([str(one) for one in value])
    return str(value)


_BY_TENSOR: Final = (
    AttributeProto.TENSOR,
    AttributeProto.SPARSE_TENSOR,
    AttributeProto.TENSORS,
    AttributeProto.TYPE_PROTO,
)


def _listed(words: Sequence[str]) -> str:
    return f"[{', '.join(words)}]"


def _constant_of(proto: onnx.NodeProto) -> Value:
    """Return the value of a ``Constant`` node, whichever of its attributes holds it."""
    name, one = proto.output[0], proto.attribute[0] if proto.attribute else AttributeProto()
    match one.name:
        case "value":
            return _constant(name, one.t)
        case "sparse_value":
            return Value(
                name, "constant", f"sparse {_dtype(one.sparse_tensor.values.data_type)}", tuple(one.sparse_tensor.dims)
            )
        case "value_float" | "value_int" | "value_string":
            dtype, shape = {"f": "float32", "i": "int64", "s": "string"}[one.name[6]], ()
        case "value_floats" | "value_ints" | "value_strings":
            dtype = {"f": "float32", "i": "int64", "s": "string"}[one.name[6]]
            return Value(name, "constant", dtype, (len(onnx.helper.get_attribute_value(one)),), attribute_words(one))
        case _:
            return Value(name, "constant")
    return Value(name, "constant", dtype, shape, attribute_words(one))


def _constant(name: str, tensor: TensorProto) -> Value:
    return Value(name, "constant", _dtype(tensor.data_type), tuple(tensor.dims), _content(tensor))


def _content(tensor: TensorProto) -> str | None:
    """Return a small tensor's content in words, None for a weight, or where it lies in another file."""
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


def _type(proto: onnx.TypeProto) -> tuple[str, Shape | None]:
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
        inner = Value("", "input", *_type(getattr(proto, kind).elem_type)).type
        return f"{kind.removesuffix('_type')} of {inner}", None
    return (kind or "").removesuffix("_type"), None
