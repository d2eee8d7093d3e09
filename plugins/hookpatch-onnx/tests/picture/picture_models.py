"""Models to compare, made by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: Iterable[onnx.NodeProto],
    initializers: Iterable[onnx.TensorProto] = (),
    shape: tuple[int | str, ...] = ("batch", 8),
    opset: int = 23,
    functions: Iterable[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a model with a float input, x, and an output, y."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(list(nodes), "g", values[:1], values[1:], list(initializers))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def weight(name: str, *shape: int) -> onnx.TensorProto:
    """Return a weight with all elements 0.5."""
    return numpy_helper.from_array(numpy.full(shape, 0.5, numpy.float32), name)


def norms(layers: int, as_one: bool, prefix: str = "v") -> onnx.ModelProto:
    """Return a chain of Linear and RMSNorm without residuals; a norm is a single node or the seven of an export."""
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    last = "x"

    def add(op: str, *inputs: str, **attributes: float) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{prefix}{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    for layer in range(layers):
        tensors += [weight(f"{prefix}w{layer}", 8, 8), weight(f"{prefix}s{layer}", 32)]
        linear = add("MatMul", last, f"{prefix}w{layer}")
        if as_one:
            last = add("RMSNormalization", linear, f"{prefix}s{layer}", epsilon=1e-6)
            continue
        tensors += [weight(f"{prefix}two{layer}"), weight(f"{prefix}eps{layer}")]
        mean = add("ReduceMean", add("Pow", linear, f"{prefix}two{layer}"), keepdims=1)
        root = add("Reciprocal", add("Sqrt", add("Add", mean, f"{prefix}eps{layer}")))
        last = add("Mul", add("Mul", linear, root), f"{prefix}s{layer}")
    nodes[-1].output[0] = "y"
    return model(nodes, tensors)


def renamed(original: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Return the same model with other names for all but inputs and outputs, and nodes in another valid order."""
    copy = onnx.ModelProto()
    copy.CopyFrom(original)
    graph, chance = copy.graph, random.Random(seed)
    names = {info.name: info.name for info in (*graph.input, *graph.output)}
    computed = {name for node in graph.node for name in node.output}
    waiting, ready, nodes = list(graph.node), set[str](), []
    while waiting:
        able = [
            index
            for index, node in enumerate(waiting)
            if all(name in ready or name not in computed for name in node.input)
        ]
        nodes.append(waiting.pop(chance.choice(able)))
        ready.update(nodes[-1].output)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    for node in graph.node:
        for ends in (node.input, node.output):
            ends[:] = [names.setdefault(name, f"n{len(names)}") if name else "" for name in ends]
    for named in (*graph.initializer, *graph.value_info):
        named.name = names.setdefault(named.name, f"n{len(names)}")
    return copy
