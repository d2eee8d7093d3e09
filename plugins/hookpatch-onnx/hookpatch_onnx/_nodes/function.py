"""Turn a region of a model into a local function of ONNX, and a node that calls the function."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from hookpatch_onnx._export.rewrite import Place, drop_initializer, is_mark
from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx._model.reads import read, read_instead, users_in
from hookpatch_onnx.errors import NodeError


def put_function(place: Place, domain: str, name: str, part: str, weights: Sequence[str]) -> Sequence[ir.Value]:
    """Move a region into a function, put a calling node in its place, and return the outputs of the node.

    The inputs of the node are the inputs of the region, followed by outer values that the region uses: mostly weights.
    Regions with equal nodes share one function. Another function of the same name gets a number appended: ONNX has
    overloads for this case, but ONNX's own reference evaluator ignores overloads.

    Args:
        place: the place of the region.
        domain: the domain of the function.
        name: the name of the function in the domain.
        part: the name of the region, for messages.
        weights: the names of the module's parameters and buffers, used as names of the function's inputs.

    Raises:
        NodeError: the opset has no local functions, or a value inside the region is used outside.
    """
    if not place.runs_functions:
        problem = f"cannot be a function at opset {place.opset}: ONNX has local functions from opset 15 on; "
        problem += "export with opset_version=15 or higher"
        raise place.export.refuse(NodeError(place.plugin, part, problem))
    marked = list(place.begin.outputs) if place.begin is not None else []
    nodes = _inside(place, marked, weights)
    computed = {value for node in nodes for value in node.outputs}
    within = {*nodes, place.end}
    users = users_in(place.graph)
    for value in computed:
        if value.is_graph_output() or not within.issuperset(users.get(value, ())):
            problem = f"cannot be one node: an inner value ('{value.name}') is used outside of the function, too"
            raise place.export.refuse(NodeError(place.plugin, part, problem))
    internal = {*computed, *marked}
    outer = [value for value in dict.fromkeys([*read(nodes), *place.results]) if value not in internal]
    inputs = [ir.Value(name=new) for new in _names(marked, outer, weights)]
    outputs = list(place.results)
    for old, new in zip([*marked, *outer], inputs, strict=True):
        for node in nodes:
            read_instead(node, old, new)
        outputs = [new if value is old else value for value in outputs]
    place.graph.remove(nodes)
    function = _new_function(place, domain, nodes, inputs, outputs)
    op_type = _add(place, function, name)
    return place.add_node(domain, op_type, [*place.inputs, *outer], outputs=len(place.end.outputs))


def _inside(place: Place, marked: Sequence[ir.Value], weights: Sequence[str]) -> list[ir.Node]:
    """Return the nodes between the marks: the nodes that only the results of the region need.

    Constants are copied into the region, since torch shares equal constants between nodes.
    """
    inside: set[ir.Node] = set()
    waiting = [value.producer() for value in place.results]
    depend = _dependents(place, marked)
    before = list(place.graph)
    users = users_in(place.graph)
    order = {node: index for index, node in enumerate(before)}
    queue = {node for node in waiting if node is not None and node.graph is place.graph}
    while queue:
        node = max(queue, key=order.__getitem__)  # the latest: all users of this node were handled before
        queue.remove(node)
        if is_mark(node):
            continue
        alone = all(user in inside or user is place.end for value in node.outputs for user in users.get(value, ()))
        # TorchScript's exporter shares equal weights through an Identity.
        if node not in depend and (not alone or node.op_type == "Identity"):
            continue  # the node stays outside: its outputs become inputs of the function, except constants
        inside.add(node)
        producers = {value.producer() for value in read([node])}
        queue |= {producer for producer in producers if producer is not None and producer.graph is place.graph} - inside
    return _with_constants(place, [node for node in before if node in inside], weights)


def _with_constants(place: Place, nodes: list[ir.Node], weights: Sequence[str]) -> list[ir.Node]:
    """Return the nodes after copies of their constants: sizes and single numbers; weights stay inputs."""
    copies = []
    for value in list(dict.fromkeys(read(nodes))):
        if _own_name(value, weights) or (tensor := _constant(value, nodes)) is None:
            continue
        copy = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], num_outputs=1)
        place.graph.insert_before(nodes[0], copy)
        for node in nodes:
            read_instead(node, value, copy.outputs[0])
        drop_initializer(value)
        copies.append(copy)
    return [*copies, *nodes]


def _constant(value: ir.Value, nodes: Sequence[ir.Node]) -> ir.TensorProtocol | None:
    if value.is_initializer():  # the optimizer of torch turns constants into initializers, too
        tensor = value.const_value
        return tensor if tensor is not None and (tensor.size == 1 or tensor.dtype.is_integer()) else None
    producer = value.producer()
    if producer is None or producer.op_type != "Constant" or producer in nodes:
        return None
    return ir.convenience.get_const_tensor(value)


def _dependents(place: Place, marked: Sequence[ir.Value]) -> set[ir.Node]:
    """Return the nodes whose outputs depend on the inputs of the region."""
    values, nodes = set(marked), set()
    for node in place.graph:
        if not values.isdisjoint(read([node])):
            nodes.add(node)
            values.update(node.outputs)
    return nodes


def _names(marked: Sequence[ir.Value], outer: Sequence[ir.Value], weights: Sequence[str]) -> list[str]:
    """Return names for the inputs of a function; a weight has its name in the module."""
    names = ["x"] if len(marked) == 1 else [f"x{index}" for index in range(1, len(marked) + 1)]
    for index, value in enumerate(outer, 1):
        name = _own_name(value, weights) or f"value_{index}"
        names.append(name if name not in names else f"{name}_{index}")
    return names


def _own_name(value: ir.Value, weights: Sequence[str]) -> str:
    """Return the name of a weight in its module; empty for any other value."""
    own = [name for name in weights if value.name == name or (value.name or "").endswith(f".{name}")]
    return max(own, key=len, default="")


def _new_function(
    place: Place, domain: str, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> ir.Function:
    """Return a function of these nodes, without metadata about their origin in the model."""
    for index, node in enumerate(nodes):
        node.name, node.doc_string = f"n{index}", None
        by = node.metadata_props.get(MADE_BY)
        node.metadata_props.clear()
        if by is not None:
            node.metadata_props[MADE_BY] = by
        for number, value in enumerate(node.outputs):
            value.name, value.type, value.shape = f"v{index}_{number}", None, None
            value.metadata_props.clear()
    domains = {node.domain for node in nodes} | {""}
    imports = {name: place.model.opset_imports[name] for name in sorted(domains)}
    passed = [index for index, value in enumerate(outputs) if value in inputs or value in outputs[:index]]
    body, results = list(nodes), list(outputs)
    for index in passed:  # each output of a function needs a node of its own inside the function
        identity = ir.Node("", "Identity", [results[index]], num_outputs=1)
        identity.outputs[0].name = f"same_{index}"
        body.append(identity)
        results[index] = identity.outputs[0]
    return ir.Function(domain, "", graph=ir.Graph(inputs, results, nodes=body, opset_imports=imports), attributes=[])


def _add(place: Place, function: ir.Function, name: str) -> str:
    """Add a function to the model, unless the model has an equal one; return the name of the function."""
    text = _text(function)
    number = 1
    while True:
        function.name = name if number == 1 else f"{name}_{number}"
        existing = place.model.functions.get(function.identifier())
        if existing is None:
            place.model.functions[function.identifier()] = function
            place.require(function.domain)
            return function.name
        if _text(existing) == text:
            return function.name
        number += 1


def _text(function: ir.Function) -> bytes:
    proto = ir.to_proto(function)
    proto.name = ""
    text: bytes = proto.SerializeToString(deterministic=True)
    return text
