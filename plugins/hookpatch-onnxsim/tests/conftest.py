"""Fixtures: the tested release of onnxsim, and its input."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from packaging.version import Version


@pytest.fixture(autouse=True, scope="session")
def installed() -> Version:
    """Return the release of onnxsim, or the release under test by test_releases.py."""
    version = metadata.version("onnxsim")
    assert version == os.environ.get("ONNXSIM_RELEASE", version)
    return Version(version)


@pytest.fixture(scope="session")
def graph() -> Callable[..., onnx.ModelProto]:
    """Make a model of ``(op, inputs, output)`` or ``(op, inputs, output, attributes)``, from x to y."""

    def make(
        nodes: Sequence[tuple[Any, ...]], constants: Mapping[str, Any], x: Sequence[Any], y: Sequence[Any]
    ) -> onnx.ModelProto:
        protos = [
            helper.make_node(op, inputs.split(), [output], **(attributes[0] if attributes else {}))
            for op, inputs, output, *attributes in nodes
        ]
        ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in (("x", x), ("y", y))]
        initializers = [numpy_helper.from_array(numpy.asarray(value), name) for name, value in constants.items()]
        return helper.make_model(
            helper.make_graph(protos, "g", *ends, initializers),
            opset_imports=[helper.make_opsetid("", 18)],
            ir_version=10,
        )

    return make


@pytest.fixture(scope="session")
def ops() -> Callable[[onnx.ModelProto], Counter[str]]:
    """Count a model's nodes by operator."""
    return lambda model: Counter(node.op_type for node in model.graph.node)


@pytest.fixture(scope="session")
def projections(graph: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """Return a graph with fuse_qkv's pattern: a value used by exactly three MatMuls of equal shape."""
    rng = numpy.random.default_rng(0)
    nodes = [("Relu", "x", "h"), *(("MatMul", f"h w{name}", name) for name in "qkv"), ("Sum", "q k v", "y")]
    weights = {f"w{name}": rng.standard_normal((4, 4)).astype(numpy.float32) for name in "qkv"}
    return graph(nodes, weights, [2, 4], [2, 4])
