"""A graph in the form that is compared and drawn: nodes, and values with shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias, final

import onnx
from onnx import AttributeProto

from hookpatch_onnx._model.values import (
    Shape,
    Value,
    attribute_words,
    constant,
    constant_of,
    sparse_constant,
    type_of,
)

Opsets: TypeAlias = Mapping[str, int]

_COMMUTE: Final = frozenset(
    ("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min", "Mul", "Or", "Sum", "Xor")
)


@final
@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph; a ``Constant`` is no node, but a constant value like an initializer.

    Attributes:
        index: the node's number in the graph.
        name: the node's name, which may be empty.
        op: the operator, after its domain unless the domain is ONNX's own: ``com.microsoft.Gelu``.
        attributes: the given attributes: value in words, by name.
        defaults: the other attributes, with the values of the operator's schema.
        graphs: the graphs inside the node (of If, Loop, Scan), by attribute name.
        inputs: the names of the input values in order; empty for an optional input that is left out.
        outputs: likewise.
        notes: metadata of the node, from the exporter and from others.
    """

    index: int
    name: str
    op: str
    attributes: dict[str, str]
    defaults: dict[str, str]
    graphs: dict[str, onnx.GraphProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    notes: dict[str, str]

    @property
    def settings(self) -> dict[str, str]:
        """The values of all attributes, given or default."""
        return {**self.defaults, **self.attributes}

    @property
    def commutes(self) -> bool:
        """True if the order of the inputs does not matter."""
        return self.op in _COMMUTE

    @property
    def label(self) -> str:
        """The node's name in messages: the first output, since only outputs always have names."""
        return next((name for name in self.outputs if name), self.name)

    @property
    def scope(self) -> str:
        """The module that the node comes from: by torch's metadata, or by the name of the node; empty if unknown."""
        if (scopes := self.notes.get("pkg.torch.onnx.name_scopes")) is not None:
            return scopes.rpartition(", ")[0].rpartition("'")[0].rpartition("'")[2]
        return self.name.rpartition("/")[0]


@final
@dataclass(slots=True)
class Graph:
    """One graph: of a model, of a node, or the body of a local function.

    Attributes:
        nodes: the nodes, in the order of the file.
        values: the values by name, including used values of an outer graph.
        inputs: the names of the inputs in order.
        outputs: likewise.
        initializers: the names of the initializers, without outputs of ``Constant`` nodes.
        constants: how many ``Constant`` nodes the graph has.
        consumers: by value name, the users: number of the node, and index of the node's input.
        opsets: the opset versions by domain; ONNX's own domain is empty.
    """

    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    initializers: tuple[str, ...] = ()
    constants: int = 0
    consumers: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    opsets: Opsets = field(default_factory=dict)

    def constants_of(self, node: Node) -> Iterator[Value]:
        """Yield the constants among a node's inputs."""
        for name in node.inputs:
            if name and self.values[name].kind == "constant":
                yield self.values[name]


def graph_of(proto: onnx.GraphProto, opsets: Opsets) -> Graph:
    """Return the graph of a model, or a graph inside a node.

    Args:
        proto: the graph.
        opsets: the model's opset versions by domain.
    """
    graph = Graph(opsets=opsets)
    for tensor in proto.initializer:
        graph.values[tensor.name] = constant(tensor.name, tensor)
    for sparse in proto.sparse_initializer:
        graph.values[sparse.values.name] = sparse_constant(sparse.values.name, sparse)
    graph.initializers = tuple(graph.values)
    inputs = [info for info in proto.input if info.name not in graph.values]  # old files list initializers there, too
    for info in inputs:
        graph.values[info.name] = Value(info.name, "input", *type_of(info.type))
    graph.inputs = tuple(info.name for info in inputs)
    graph.outputs = tuple(info.name for info in proto.output)
    types = {info.name: type_of(info.type) for info in (*proto.value_info, *proto.output)}
    return _with_nodes(graph, proto.node, types)


def body_of(function: onnx.FunctionProto) -> Graph:
    """Return the body of a local function as a graph."""
    graph = Graph(inputs=tuple(function.input), outputs=tuple(function.output), opsets=opsets_of(function))
    graph.values = {name: Value(name, "input") for name in function.input}
    types = {info.name: type_of(info.type) for info in function.value_info}
    return _with_nodes(graph, function.node, types)


def opsets_of(proto: onnx.ModelProto | onnx.FunctionProto) -> Opsets:
    """Return the opset versions of a model or a local function by domain; ONNX's own domain is empty."""
    return {_domain(opset.domain): opset.version for opset in proto.opset_import}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _with_nodes(graph: Graph, protos: Iterable[onnx.NodeProto], types: dict[str, tuple[str, Shape | None]]) -> Graph:
    for proto in protos:
        if proto.op_type == "Constant" and not proto.domain and len(proto.output) == 1:
            graph.constants += 1
            graph.values[proto.output[0]] = constant_of(proto)
            continue
        node = _node(len(graph.nodes), proto, graph.opsets)
        graph.nodes.append(node)
        for slot, name in enumerate(node.outputs):
            if name:
                dtype, shape = types.get(name, ("", None))
                graph.values[name] = Value(name, "node", dtype, shape, None, node.index, slot)
    for node in graph.nodes:
        for slot, name in enumerate(node.inputs):
            if name:
                graph.values.setdefault(name, Value(name, "outer"))
                graph.consumers.setdefault(name, []).append((node.index, slot))
    for name in graph.outputs:
        graph.values.setdefault(name, Value(name, "outer"))
    return graph


def _node(index: int, proto: onnx.NodeProto, opsets: Opsets) -> Node:
    graphs = {attribute.name: attribute.g for attribute in proto.attribute if attribute.type == AttributeProto.GRAPH}
    for attribute in proto.attribute:
        graphs |= {f"{attribute.name}[{position}]": graph for position, graph in enumerate(attribute.graphs)}
    domain = _domain(proto.domain)
    overload = f":{proto.overload}" if proto.overload else ""
    attributes = {
        attribute.name: attribute_words(attribute)
        for attribute in proto.attribute
        if not (attribute.HasField("g") or attribute.graphs)
    }
    defaults = _defaults(proto.op_type, domain, opsets.get(domain, 0))
    notes = {prop.key: prop.value for prop in proto.metadata_props}
    if proto.doc_string:
        notes["doc_string"] = proto.doc_string
    return Node(
        index=index,
        name=proto.name,
        op=f"{domain}{'.' * bool(domain)}{proto.op_type}{overload}",
        attributes=attributes,
        defaults={name: words for name, words in defaults.items() if name not in attributes},
        graphs=graphs,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        notes=notes,
    )


@cache
def _defaults(op: str, domain: str, version: int) -> dict[str, str]:
    """Return the default attributes of an operator's schema, in words; none for an unknown operator."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except (onnx.defs.SchemaError, TypeError):
        return {}
    values = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: attribute_words(value) for name, value in values.items() if value.type}
