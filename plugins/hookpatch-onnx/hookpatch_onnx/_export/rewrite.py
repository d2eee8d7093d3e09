"""Replace each marked region of a model by the nodes that its plugin builds."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.region import BEGIN, DOMAIN, END, note_refuted
from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx._model.reads import GraphLike, graphs


@dataclass(frozen=True)
class Place:
    """The place of a region in the model, where the plugin puts a node.

    Attributes:
        model: the model; a plugin may add functions.
        graph: the graph that holds the region.
        begin, end: the marks of the region; ``begin`` is None for a region without inputs.
        inputs: the inputs of the region.
        results: the values before the end mark; with ``Region.alike`` in TorchScript's exporter, the first input.
        export: the export.
        number: the number of the region in the export.
    """

    model: ir.Model
    graph: GraphLike
    begin: ir.Node | None
    end: ir.Node
    inputs: Sequence[ir.Value]
    results: Sequence[ir.Value]
    export: Export
    number: int

    @property
    def plugin(self) -> str:
        """The name of the plugin that replaces the region."""
        return str(self.export.regions[self.number].plugin)

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators in the model; torch may choose a higher one than requested."""
        return self.model.opset_imports[""]

    def add_node(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | Sequence[ir.Attr] = (),
        outputs: int = 1,
        graph: ir.Graph | None = None,
    ) -> Sequence[ir.Value]:
        """Put a node before the end of the region, or at the end of a graph inside it; return the node's outputs."""
        converted = ir.convenience.convert_attributes(attributes) if isinstance(attributes, Mapping) else attributes
        node = ir.Node(domain, op_type, inputs, converted, num_outputs=outputs)
        node.metadata_props.update(_origin(self.end))
        node.metadata_props[MADE_BY] = self.plugin
        self.export.made[node] = self.number
        if graph is None:
            self.graph.insert_before(self.end, node)
        else:
            graph.append(node)
        self.require(domain)
        return node.outputs

    @property
    def runs_functions(self) -> bool:
        """True if the model may have local functions."""
        return self.model.ir_version >= 8

    def require(self, domain: str) -> None:
        """Add a domain to the imports of the model, in the caller's version, or 1."""
        self.model.opset_imports.setdefault(domain, self.export.domains.get(domain, 1))

    def constant(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """Return a value that holds a tensor: a new initializer, or a Constant inside a function."""
        if isinstance(self.graph, ir.Function):  # a function cannot read initializers of the model
            return self.add_node("", "Constant", [], {"value": tensor})[0]
        initializers = self.model.graph.initializers
        while name in initializers:
            name += "_"
        value = ir.Value(
            name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.model.graph.register_initializer(value)
        return value


def _origin(mark: ir.Node) -> dict[str, str]:
    """Return torch's metadata about the origin of a mark, without the mark itself."""
    metadata = {key: value for key, value in mark.metadata_props.items() if not key.endswith(".fx_node")}
    for key in ("pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.name_scopes"):
        if key in metadata:
            metadata[key] = repr(ast.literal_eval(metadata[key])[:-1])
    if "namespace" in metadata:
        metadata["namespace"] = metadata["namespace"].rpartition("/")[0]
    return metadata


def rewrite(model: ir.Model, export: Export) -> None:
    """Replace each marked region by the nodes that its plugin builds; remove all marks; close the receipts."""
    for graph in [*graphs(model.graph), *(graph for f in model.functions.values() for graph in graphs(f))]:
        # In the order of the graph, an inner region ends before the outer one.
        for end in [node for node in graph if is_mark(node, END)]:
            _replace(model, graph, end, export)
        for begin in [node for node in graph if is_mark(node, BEGIN)]:
            _pass_by(graph, begin, _present(begin.inputs))  # no result of this region is used
    model.opset_imports.pop(DOMAIN, None)
    for function in model.functions.values():
        function.opset_imports.pop(DOMAIN, None)
    export.close(model)


def _replace(model: ir.Model, graph: GraphLike, end: ir.Node, export: Export) -> None:
    begin_count = end.attributes["taken"].as_int()
    end_inputs = _present(end.inputs)
    results = end_inputs[begin_count:]
    begin = end_inputs[0].producer() if begin_count else None
    while begin is not None and not is_mark(begin, BEGIN):  # x.to(x.dtype) is x: TorchScript names the cast instead
        begin = next((value.producer() for value in _present(begin.inputs)), None)
    inputs = _present(begin.inputs) if begin is not None else []
    number = end.attributes["region"].as_int()
    region = export.regions[number]
    if number in export.refuted:
        note_refuted(export, number)
        _pass_by(graph, end, results)
        if begin is not None and begin.graph is graph:
            _pass_by(graph, begin, inputs)
        return
    if (receipt := export.receipts.get(region.plugin)) is not None:
        receipt.made.append(region.part)
    values = region.build(Place(model, graph, begin, end, inputs, results, export, number))
    for value, old in zip(values, end.outputs, strict=True):
        value.name = _renamed(old.name, value)
        value.type, value.shape = value.type or old.type, value.shape or old.shape
        value.metadata_props.update(old.metadata_props)
    _pass_by(graph, end, values)
    _drop_unused(graph, [value.producer() for value in end_inputs])
    if begin is not None and begin.graph is graph:
        _pass_by(graph, begin, inputs)
        _drop_unused(graph, [value.producer() for value in inputs])


def _present(values: Sequence[ir.Value | None]) -> list[ir.Value]:
    """Return the inputs of a mark, which has no optional inputs."""
    return [value for value in values if value is not None]


def _renamed(name: str | None, value: ir.Value) -> str | None:
    """Return a name with the operator of the node in place of the mark's (TorchScript's exporter names by operator)."""
    if name is None or (producer := value.producer()) is None:
        return name
    return re.sub(rf"(^|/){END}(?=_output_\d+$)", rf"\1{producer.op_type}", name)


def _pass_by(graph: GraphLike, mark: ir.Node, values: Sequence[ir.Value]) -> None:
    for old, value in zip(mark.outputs, values, strict=True):
        old.replace_all_uses_with(value, replace_graph_outputs=True)
    graph.remove(mark, safe=True)


def _drop_unused(graph: GraphLike, nodes: Sequence[ir.Node | None]) -> None:
    """Remove unused nodes, and then the nodes and initializers that only these nodes used."""
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node.graph is not graph or is_mark(node, BEGIN):
            continue
        if any(value.uses() or value.is_graph_output() for value in node.outputs):
            continue
        before = [value for value in node.inputs if value is not None]
        graph.remove(node, safe=True)
        for value in before:
            if (producer := value.producer()) is not None:
                waiting.append(producer)
            else:
                drop_initializer(value)


def drop_initializer(value: ir.Value) -> None:
    """Remove an unused initializer; do nothing to any other value."""
    used = value.uses() or value.is_graph_output() or value.is_graph_input()
    if value.is_initializer() and not used and isinstance(value.graph, ir.Graph) and value.name is not None:
        del value.graph.initializers[value.name]


def is_mark(node: ir.Node, kind: str = "") -> bool:
    """Return True if a node is a mark, or a mark of the given kind."""
    return node.domain == DOMAIN and node.op_type in ((kind,) if kind else (BEGIN, END))
