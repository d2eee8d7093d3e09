"""A region of a model becomes a local function of ONNX, and a node that calls it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from hookpatch_onnx._rewrite import Place, drop_initializer, is_mark
from hookpatch_onnx.errors import NodeError


def put_function(place: Place, domain: str, name: str, part: str, weights: Sequence[str]) -> Sequence[ir.Value]:
    """Move the region into a function and put a node that calls it into its place; return the node's outputs.

    The node's inputs are those of the region and then whatever else it takes from the model: weights, mostly. Regions
    that compute the same share a function. A function that computes something else under the same name gets a number
    behind it: ONNX has overloads for that, but its own reference evaluator does not heed them.

    Args:
        place: where.
        domain: the function's domain.
        name: its name in that domain.
        part: what it is, for messages.
        weights: the names of the module's parameters and buffers, after which the function's inputs are named.

    Raises:
        NodeError: local functions are not to be had at this opset, or something inside the region is used outside.
    """
    if not place.runs_functions:
        problem = (
            f"cannot be a function at opset {place.opset}: ONNX has local functions from opset 15 on; export with "
        )
        problem += "opset_version=15 or higher"
        raise place.export.refuse(NodeError(place.plugin, part, problem))
    marked = list(place.begin.outputs) if place.begin is not None else []
    nodes = _inside(place, marked)
    made = {value for node in nodes for value in node.outputs}
    within = {*nodes, place.end}
    users = _users(place)
    for value in made:
        if value.is_graph_output() or not within.issuperset(users.get(value, ())):
            problem = f"cannot be one node: what it computes on the way ('{value.name}') is used outside of it, too"
            raise place.export.refuse(NodeError(place.plugin, part, problem))
    others = list(
        dict.fromkeys(v for v in (*_read(nodes), *place.results) if v not in made and v not in marked)
    )  # in the order in which they are used
    inputs = [ir.Value(name=new) for new in _names(marked, others, weights)]
    outputs = list(place.results)
    for old, new in zip([*marked, *others], inputs, strict=True):
        for node in nodes:
            _read_instead(node, old, new)
        outputs = [new if value is old else value for value in outputs]
    place.graph.remove(nodes)
    function = _new_function(place, domain, nodes, inputs, outputs)
    op_type = _add(place, function, name)
    return place.put(domain, op_type, [*place.inputs, *others], outputs=len(place.end.outputs))


def _inside(place: Place, marked: Sequence[ir.Value]) -> list[ir.Node]:
    """Return the nodes between the marks: those that lead to the results, and are there for nothing else.

    Constants are copied for it, since torch shares them between all that need the same.
    """
    inside: set[ir.Node] = set()
    waiting = [value.producer() for value in place.results]
    depend = _dependents(place, marked)
    before = list(place.graph)
    users = _users(place)
    order = {node: index for index, node in enumerate(before)}
    queue = {node for node in waiting if node is not None and node.graph is place.graph}
    while queue:
        node = max(queue, key=order.__getitem__)  # the users of a node come behind it, and have been looked at
        queue.remove(node)
        if is_mark(node):
            continue
        alone = all(user in inside or user is place.end for value in node.outputs for user in users.get(value, ()))
        if node not in depend and (
            not alone or node.op_type == "Identity"
        ):  # by which TorchScript shares equal weights
            continue  # it stays outside: its outputs are inputs of the function, unless it is a constant
        inside.add(node)
        producers = {value.producer() for value in _read([node])}
        queue |= {one for one in producers if one is not None and one.graph is place.graph} - inside
    return _with_constants(place, [node for node in before if node in inside])


def _with_constants(place: Place, nodes: list[ir.Node]) -> list[ir.Node]:
    """Return the nodes and before them what they have for constants: sizes and single numbers; weights are inputs."""
    copies = []
    for value in list(dict.fromkeys(_read(nodes))):
        if (tensor := _constant(value, nodes)) is None:
            continue
        copy = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)], num_outputs=1)
        place.graph.insert_before(nodes[0], copy)
        for node in nodes:
            _read_instead(node, value, copy.outputs[0])
        drop_initializer(value)
        copies.append(copy)
    return [*copies, *nodes]


def _constant(value: ir.Value, nodes: Sequence[ir.Node]) -> ir.TensorProtocol | None:
    if value.is_initializer():  # as which torch keeps constants, too, when it has optimized
        tensor = value.const_value
        return tensor if tensor is not None and (tensor.size == 1 or tensor.dtype.is_integer()) else None
    producer = value.producer()
    if producer is None or producer.op_type != "Constant" or producer in nodes:
        return None
    return ir.convenience.get_const_tensor(value)


def _dependents(place: Place, marked: Sequence[ir.Value]) -> set[ir.Node]:
    """Return the nodes whose outputs depend on what the region takes."""
    values, nodes = set(marked), set()
    for node in place.graph:
        if not values.isdisjoint(_read([node])):
            nodes.add(node)
            values.update(node.outputs)
    return nodes


def _read(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield what nodes read, those inside their subgraphs, too, if it comes from outside of these."""
    for node in nodes:
        yield from (value for value in node.inputs if value is not None)
        for graph in _subgraphs(node):
            own = {*graph.inputs, *graph.initializers.values(), *(value for one in graph for value in one.outputs)}
            yield from (value for value in (*_read(graph), *graph.outputs) if value not in own)


def _read_instead(node: ir.Node, old: ir.Value, new: ir.Value) -> None:
    for index, value in enumerate(node.inputs):
        if value is old:
            node.replace_input_with(index, new)
    for graph in _subgraphs(node):
        for one in graph:
            _read_instead(one, old, new)
        for index, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[index] = new


def _subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _users(place: Place) -> dict[ir.Value, set[ir.Node]]:
    """Return for each value the nodes of the graph that use it, themselves or in their subgraphs."""
    users: dict[ir.Value, set[ir.Node]] = {}
    for node in place.graph:
        for value in _read([node]):
            users.setdefault(value, set()).add(node)
    return users


def _names(marked: Sequence[ir.Value], others: Sequence[ir.Value], weights: Sequence[str]) -> list[str]:
    """Return names for a function's inputs: of weights those that they have in the module."""
    names = ["x"] if len(marked) == 1 else [f"x{index}" for index in range(1, len(marked) + 1)]
    for index, value in enumerate(others, 1):
        own = [name for name in weights if value.name == name or (value.name or "").endswith(f".{name}")]
        name = max(own, key=len, default=f"value_{index}")
        names.append(name if name not in names else f"{name}_{index}")
    return names


def _new_function(
    place: Place, domain: str, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> ir.Function:
    """Return a function of these nodes, without what tells where in the model they were."""
    for index, node in enumerate(nodes):
        node.name, node.doc_string = f"n{index}", None
        node.metadata_props.clear()
        for number, value in enumerate(node.outputs):
            value.name, value.type, value.shape = f"v{index}_{number}", None, None
            value.metadata_props.clear()
    domains = {node.domain for node in nodes} | {""}
    imports = {one: place.model.opset_imports[one] for one in sorted(domains)}
    passed = [index for index, value in enumerate(outputs) if value in inputs or value in outputs[:index]]
    body, results = list(nodes), list(outputs)
    for index in passed:  # an output of a function is made by a node of it, and by one output alone
        same = ir.Node("", "Identity", [results[index]], num_outputs=1)
        same.outputs[0].name = f"same_{index}"
        body.append(same)
        results[index] = same.outputs[0]
    return ir.Function(domain, "", graph=ir.Graph(inputs, results, nodes=body, opset_imports=imports), attributes=[])


def _add(place: Place, function: ir.Function, name: str) -> str:
    """Add a function to the model, or find the one that it has and that computes the same; return its name."""
    text = _text(function)
    number = 1
    while True:
        function.name = name if number == 1 else f"{name}_{number}"
        known = place.model.functions.get(function.identifier())
        if known is None:
            place.model.functions[function.identifier()] = function
            place.require(function.domain)
            return function.name
        if _text(known) == text:
            return function.name
        number += 1


def _text(function: ir.Function) -> bytes:
    proto = ir.to_proto(function)
    proto.name = ""
    text: bytes = proto.SerializeToString(deterministic=True)
    return text
