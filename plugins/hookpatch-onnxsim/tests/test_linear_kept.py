"""linear_kept on the real onnxsim: each Linear stays as exported, with the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy
import onnx
import onnxsim
import pytest
from onnx import numpy_helper
from packaging.version import Version

import hookpatch

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: no build for this Python")

pytestmark = pytest.mark.model

Graph = Callable[..., onnx.ModelProto]

SIZE: Final = 8
SHAPES: Final = {"2-D": [2, SIZE], "3-D": [2, 3, SIZE], "4-D": [2, 2, 3, SIZE], "dynamic": ["batch", "tokens", SIZE]}

LINEAR = [("MatMul", "h w1", "m1"), ("Add", "m1 b1", "l1")]
THREE = [("MatMul", f"h w{n}", f"p{n}") for n in "123"]
THREE_WITH_BIAS = [
    *(("MatMul", f"h w{n}", f"m{n}") for n in "123"),
    *(("Add", f"m{n} b{n}", f"p{n}") for n in "123"),
]
SUM = ("Sum", "p1 p2 p3", "y")
TURNED = [("Transpose", f"w{n}", f"t{n}", {"perm": [1, 0]}) for n in "123"]

# Nodes after a Relu of x, by name: a Linear, or needed by a Linear.
GRAPHS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "with bias": [*LINEAR, ("Tanh", "l1", "y")],
    "bias first": [("MatMul", "h w1", "m"), ("Add", "b1 m", "l"), ("Tanh", "l", "y")],
    "without bias": [("MatMul", "h w1", "m"), ("Tanh", "m", "y")],
    "at the end": [("MatMul", "h w1", "m"), ("Add", "m b1", "y")],
    "two in a row": [*LINEAR, ("MatMul", "l1 w2", "m2"), ("Add", "m2 b2", "l2"), ("Tanh", "l2", "y")],
    "and a residual": [("MatMul", "h w1", "m"), ("Add", "m h", "r"), ("Tanh", "r", "y")],
    "and a low rank": [
        *(("MatMul", "h w1", "m"), ("MatMul", "h w2", "a"), ("MatMul", "a w3", "b")),
        *(("Add", "m b", "r"), ("Tanh", "r", "y")),
    ],
    "scaled": [("Mul", "h b2", "s"), ("MatMul", "s w1", "m"), ("Add", "m b1", "l"), ("Mul", "l b3", "y")],
    "three on one value": [*THREE, SUM],
    "three with bias": [*THREE_WITH_BIAS, SUM],
    "three turned": [*TURNED, *[(op, ins.replace("w", "t"), out) for op, ins, out in THREE], SUM],
}
GEMMS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "one": [("Gemm", "h w1 b1", "g", {"transB": 1}), ("Tanh", "g", "y")],
    "without bias": [("Gemm", "h w1", "g"), ("Tanh", "g", "y")],
    "two in a row": [("Gemm", "h w1 b1", "g", {"transB": 1}), ("Gemm", "g w2 b2", "y", {"transB": 1})],
    "three on one value": [*[("Gemm", f"h w{n} b{n}", f"p{n}", {"transB": 1}) for n in "123"], SUM],
    "turned": [TURNED[0], ("Gemm", "h t1 b1", "g"), ("Tanh", "g", "y")],
}
HEADS = [
    *(("Reshape", f"p{n} heads", f"r{n}") for n in "123"),
    *(("Transpose", f"r{n}", f"h{n}", {"perm": [0, 2, 3, 1] if n == "2" else [0, 2, 1, 3]}) for n in "123"),
    *(("MatMul", "h1 h2", "scores"), ("Div", "scores scale", "scaled"), ("Softmax", "scaled", "weights", {"axis": -1})),
    *(("MatMul", "weights h3", "c"), ("Transpose", "c", "t", {"perm": [0, 2, 1, 3]}), ("Reshape", "t joined", "j")),
    *(("MatMul", "j w4", "m4"), ("Add", "m4 b4", "y")),
]
ATTENTION: Final = [*THREE_WITH_BIAS, *HEADS]


def constants(nodes: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Return random weights and biases for these nodes, and the constants of an attention of two heads."""
    rng = numpy.random.default_rng(0)
    every: dict[str, Any] = {f"w{n}": rng.standard_normal((SIZE, SIZE)).astype(numpy.float32) for n in "1234"}
    every |= {f"b{n}": rng.standard_normal(SIZE).astype(numpy.float32) for n in "1234"}
    every |= {"heads": [1, 4, 2, SIZE // 2], "joined": [1, 4, SIZE], "scale": numpy.float32((SIZE // 2) ** 0.5)}
    return {name: every[name] for node in nodes for name in node[1].split() if name in every}


def linears(model: onnx.ModelProto) -> Counter[tuple[str, bytes]]:
    """Count the nodes that multiply by a constant matrix, by operator and by the matrix, turned or not."""
    values = {constant.name: numpy_helper.to_array(constant) for constant in model.graph.initializer}
    values |= {node.output[0]: values[node.input[0]] for node in model.graph.node if node.input[0] in values}
    return Counter(
        (node.op_type, min(values[node.input[1]].tobytes(), values[node.input[1]].T.tobytes()))
        for node in model.graph.node
        if node.op_type in ("MatMul", "Gemm") and node.input[1] in values
    )


def computed(model: onnx.ModelProto, x: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Run the model without an optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return numpy.asarray(session.run(None, {"x": x})[0])


def check_kept(model: onnx.ModelProto, ops: Callable[[onnx.ModelProto], Counter[str]]) -> None:
    """Simplify with the plugin: the same nodes, but for what turned a weight, and the same numbers."""
    with hookpatch.active("linear_kept"):
        simplified, agrees = onnxsim.simplify(model)
    assert agrees
    assert linears(simplified) == linears(model)
    turned = sum(node.input[0].startswith("w") for node in model.graph.node if node.op_type == "Transpose")
    assert ops(simplified) == ops(model) - Counter(Transpose=turned)
    rng = numpy.random.default_rng(1)
    shape = [dim.dim_value or 3 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = rng.standard_normal(shape).astype(numpy.float32)
    numpy.testing.assert_allclose(computed(simplified, x), computed(model, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GRAPHS)
def test_matmul_and_add_are_kept(
    graph: Graph, ops: Callable[[onnx.ModelProto], Counter[str]], name: str, shape: str
) -> None:
    """Whatever lies around a Linear of two or more dimensions, fixed or not."""
    nodes = [("Relu", "x", "h"), *GRAPHS[name]]
    check_kept(graph(nodes, constants(nodes), SHAPES[shape], SHAPES[shape]), ops)


@pytest.mark.parametrize("name", GEMMS)
def test_gemm_is_kept(graph: Graph, ops: Callable[[onnx.ModelProto], Counter[str]], name: str) -> None:
    """A Linear of two dimensions stays a Gemm."""
    nodes = [("Relu", "x", "h"), *GEMMS[name]]
    check_kept(graph(nodes, constants(nodes), SHAPES["2-D"], SHAPES["2-D"]), ops)


def test_projections_of_an_attention_are_kept(
    graph: Graph, ops: Callable[[onnx.ModelProto], Counter[str]], installed: Version
) -> None:
    """From 0.8.1 on, where fuse_qkv is skipped, fuse_attention takes the three into one node of com.microsoft's."""
    nodes = [("Relu", "x", "h"), *ATTENTION]
    model = graph(nodes, constants(nodes), [1, 4, SIZE], [1, 4, SIZE])
    check_kept(model, ops)
    without = ops(onnxsim.simplify(model, skipped_optimizers=["fuse_qkv"])[0])
    assert without["Attention"] == (1 if installed >= Version("0.8") else 0)
    with hookpatch.active("fuse_qkv_off"):
        assert linears(onnxsim.simplify(model)[0]).total() == 4


def test_without_the_plugin_linears_are_not_kept(
    graph: Graph, ops: Callable[[onnx.ModelProto], Counter[str]], installed: Version
) -> None:
    """Without the plugin each release changes three Linears and a single Linear in its own way."""

    def plain(name: str, shape: str) -> Counter[str]:
        nodes = [("Relu", "x", "h"), *GRAPHS[name]]
        return ops(onnxsim.simplify(graph(nodes, constants(nodes), SHAPES[shape], SHAPES[shape]))[0])

    assert plain("three on one value", "3-D") == {"Relu": 1, "MatMul": 1, "Split": 1, "Sum": 1}
    assert plain("with bias", "2-D") == {"Relu": 1, "Gemm": 1, "Tanh": 1}
    assert plain("and a residual", "2-D") == {"Relu": 1, "Gemm": 1, "Tanh": 1}
    batched = {"Relu": 1, "Reshape": 2, "Gemm": 1, "Tanh": 1}
    unchanged = {"Relu": 1, "MatMul": 1, "Add": 1, "Tanh": 1}
    assert plain("with bias", "3-D") == (batched if installed >= Version("0.7.1") else unchanged)
