"""fuse_qkv_off and onnxsim_skip on the real onnxsim."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import numpy
import onnx
import onnxsim
import onnxsim.onnx_simplifier
import pytest
from onnx import TensorProto, helper, numpy_helper

import hookpatch
from hookpatch import errors

pytestmark = pytest.mark.model


def attention_inputs() -> onnx.ModelProto:
    """A graph with what fuse_qkv looks for: one value that three MatMuls of one shape use, and no fourth."""
    rng = numpy.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((4, 4)).astype(numpy.float32), f"w{name}") for name in "qkv"]
    nodes = [helper.make_node("Relu", ["x"], ["h"])]
    nodes += [helper.make_node("MatMul", ["h", f"w{name}"], [name]) for name in "qkv"]
    nodes += [helper.make_node("Sum", ["q", "k", "v"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def ops(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


FUSED = {"Relu": 1, "MatMul": 1, "Split": 1, "Sum": 1}
APART = {"Relu": 1, "MatMul": 3, "Sum": 1}


def simplified(**arguments: Any) -> Counter[str]:
    model, agrees = onnxsim.simplify(attention_inputs(), **arguments)
    assert agrees
    return ops(model)


def test_projections_stay_apart_inside_and_are_fused_outside() -> None:
    """The plugin's purpose."""
    simplify, code = onnxsim.simplify, onnxsim.simplify.__code__
    assert simplified() == FUSED
    with hookpatch.active("fuse_qkv_off") as session:
        assert simplified() == APART
    assert simplified() == FUSED
    assert onnxsim.simplify is simplify is onnxsim.onnx_simplifier.simplify
    assert simplify.__code__ is code
    assert [(patch.plugin, patch.state) for patch in session.report()] == [("fuse_qkv_off", "restored")]


def test_every_name_of_the_function_is_patched() -> None:
    """`onnxsim.simplify`, `onnxsim.onnx_simplifier.simplify` and a name imported before us are one function."""
    from onnxsim import simplify as bound_before

    with hookpatch.active("fuse_qkv_off"):
        for simplify in (onnxsim.simplify, onnxsim.onnx_simplifier.simplify, bound_before):
            assert ops(simplify(attention_inputs())[0]) == APART


def test_what_the_caller_skips_is_skipped_too_and_its_list_is_left_alone() -> None:
    """Merged, in the caller's order first, and handed over as a list of its own."""
    seen: list[list[str]] = []

    def record(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        seen.append(list(kwargs["skipped_optimizers"]))
        kwargs["skipped_optimizers"].append("spoiled")  # as onnxsim itself does with skip_fuse_bn
        return None

    callers = ["eliminate_identity", "fuse_qkv"]
    inner = hookpatch.wrap("onnxsim.onnx_simplifier:simplify", record, reach="everywhere")
    with hookpatch.active("fuse_qkv_off", inner):
        onnxsim.simplify(None, skipped_optimizers=callers)
        onnxsim.simplify(None)
        onnxsim.simplify(None, skipped_optimizers=None)
    assert callers == ["eliminate_identity", "fuse_qkv"]
    assert seen == [["eliminate_identity", "fuse_qkv"], ["fuse_qkv"], ["fuse_qkv"]]


def test_positional_list_is_merged() -> None:
    """A caller may pass skipped_optimizers by position."""
    with hookpatch.active("fuse_qkv_off"):
        model, _ = onnxsim.simplify(attention_inputs(), 0, True, False, None, None, ["eliminate_identity"])
    assert ops(model) == APART


def test_perform_optimization_false_runs_no_pass_with_and_without() -> None:
    """No pass is switched on by a list of passes to skip."""
    plain = simplified(perform_optimization=False)
    assert plain == APART
    with hookpatch.active("fuse_qkv_off"):
        assert simplified(perform_optimization=False) == plain
    with hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": ["eliminate_identity"]}}):
        assert simplified(perform_optimization=False) == plain


def test_onnxsim_skip_skips_the_passes_named() -> None:
    """Its options say which."""
    with hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": ["fuse_qkv"]}}):
        assert simplified() == APART
    with hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": ["eliminate_identity"]}}):
        assert simplified() == FUSED


def test_both_plugins_together() -> None:
    """They compose on one function."""
    both = hookpatch.active(
        "fuse_qkv_off", "onnxsim_skip", options={"onnxsim_skip": {"passes": ["eliminate_identity"]}}
    )
    with both:
        assert simplified() == APART
    assert simplified() == FUSED


def test_onnxsim_skip_without_passes_is_refused() -> None:
    """Options that must be given are asked for."""
    with pytest.raises(errors.OptionsError) as caught:
        hookpatch.active("onnxsim_skip")
    assert str(caught.value) == (
        "options of plugin 'onnxsim_skip' (hookpatch-onnxsim 0.1.0): 'passes' must be given; it takes passes: list[str]"
    )


def test_plugins_import_neither_onnx_nor_onnxsim() -> None:
    """They are loaded at interpreter start: the target is imported by whoever uses it."""
    program = (
        "import sys, hookpatch\n"
        "session = hookpatch.active('fuse_qkv_off', 'onnxsim_skip', options={'onnxsim_skip': {'passes': []}})\n"
        "with session: print([m for m in ('onnx', 'onnxsim', 'torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
