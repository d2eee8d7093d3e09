"""fuse_qkv_off on the real onnxsim: one plugin's whole way, and how a call is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy
import onnx
import onnxsim
import onnxsim.onnx_simplifier
import pytest
from onnxsim import simplify as bound_before
from packaging.version import Version

import hookpatch

pytestmark = pytest.mark.model

FUSED = {"Relu": 1, "MatMul": 1, "Split": 1, "Sum": 1}
APART = {"Relu": 1, "MatMul": 3, "Sum": 1}

Simplified = Callable[..., Counter[str]]


@pytest.fixture
def simplified(projections: onnx.ModelProto, ops: Callable[[onnx.ModelProto], Counter[str]]) -> Simplified:
    """Simplify the projections with arguments, and count the remaining nodes."""

    def run(*arguments: Any, **options: Any) -> Counter[str]:
        model, agrees = onnxsim.simplify(projections, *arguments, **options)
        assert agrees
        return ops(model)

    return run


def test_projections_stay_apart_inside_and_are_fused_outside(simplified: Simplified) -> None:
    """The plugin's purpose."""
    simplify, code = onnxsim.simplify, onnxsim.simplify.__code__
    assert simplified() == FUSED
    with hookpatch.active("fuse_qkv_off") as session:
        assert simplified() == APART
    assert simplified() == FUSED
    assert onnxsim.simplify is simplify is onnxsim.onnx_simplifier.simplify
    assert simplify.__code__ is code
    assert [(patch.plugin, patch.state) for patch in session.report()] == [("fuse_qkv_off", "restored")]


def test_every_name_of_the_function_is_patched(
    projections: onnx.ModelProto, ops: Callable[[onnx.ModelProto], Counter[str]]
) -> None:
    """`onnxsim.simplify`, `onnxsim.onnx_simplifier.simplify` and earlier imported names are the same function."""
    with hookpatch.active("fuse_qkv_off"):
        for simplify in (onnxsim.simplify, onnxsim.onnx_simplifier.simplify, bound_before):
            assert ops(simplify(projections)[0]) == APART


def test_what_the_caller_skips_is_skipped_too_and_its_list_is_left_alone() -> None:
    """The lists are merged, the caller's first, into a new list."""
    skipped: list[list[str]] = []

    def record(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        skipped.append(list(kwargs["skipped_optimizers"]))
        kwargs["skipped_optimizers"].append("spoiled")  # as onnxsim itself does with skip_fuse_bn
        return None

    callers = ["eliminate_identity", "fuse_qkv"]
    inner = hookpatch.wrap("onnxsim.onnx_simplifier:simplify", record, reach="everywhere")
    with hookpatch.active("fuse_qkv_off", inner):
        onnxsim.simplify(None, skipped_optimizers=callers)
        onnxsim.simplify(None)
        onnxsim.simplify(None, skipped_optimizers=None)
        onnxsim.simplify(None, skipped_optimizers=[])
        onnxsim.simplify(None, skipped_optimizers=("nop",))
    ours = ["fuse_qkv", "fuse_attention"]
    assert callers == ["eliminate_identity", "fuse_qkv"]
    assert skipped == [["eliminate_identity", *ours], ours, ours, ours, ["nop", *ours]]


def test_the_callers_list_is_left_alone_by_onnxsim_too(simplified: Simplified) -> None:
    """With skip_fuse_bn onnxsim appends to the given list: outside to the caller's, inside to the plugin's."""
    callers = ["eliminate_identity"]
    with hookpatch.active("fuse_qkv_off"):
        assert simplified(skipped_optimizers=callers, skip_fuse_bn=True) == APART
    assert callers == ["eliminate_identity"]
    assert simplified(skipped_optimizers=callers, skip_fuse_bn=True) == FUSED
    assert callers == ["eliminate_identity", "fuse_bn_into_conv"]


def test_positional_list_is_merged(simplified: Simplified) -> None:
    """A caller may pass skipped_optimizers by position."""
    with hookpatch.active("fuse_qkv_off"):
        assert simplified(0, True, False, None, None, ["eliminate_identity"]) == APART
        assert simplified(0, True, False, None, None, None, False) == APART


def test_perform_optimization_false_runs_no_pass_with_and_without(simplified: Simplified) -> None:
    """No pass is switched on by a list of passes to skip."""
    assert simplified(perform_optimization=False) == APART
    skip = hookpatch.active("onnxsim_skip", options={"onnxsim_skip": {"passes": ["eliminate_identity"]}})
    with skip:
        assert simplified() == FUSED
        assert simplified(perform_optimization=False) == APART
        assert simplified(perform_optimization=False, skipped_optimizers=[]) == APART


@pytest.mark.parametrize("wrong", [{"skipped_optimizers": "fuse_qkv"}, {"skipped_optimizers": 3}, {"skip": []}])
def test_wrong_call_gets_the_error_of_onnxsim_itself(simplified: Simplified, wrong: dict[str, Any]) -> None:
    """A text is not taken for a list of letters, and a wrong name is told as without us."""
    with pytest.raises(TypeError) as plain:
        simplified(**wrong)
    with hookpatch.active("fuse_qkv_off"), pytest.raises(TypeError) as patched:
        simplified(**wrong)
    assert str(patched.value).partition("Invoked with")[0] == str(plain.value).partition("Invoked with")[0]


def test_projections_of_a_graph_input(
    graph: Callable[..., onnx.ModelProto], ops: Callable[[onnx.ModelProto], Counter[str]], installed: Version
) -> None:
    """Up to 0.7.3 fuse_qkv fails on a graph input, in 0.8.1 not; with the plugin all releases simplify the graph."""
    weights = {f"w{name}": numpy.eye(4, dtype=numpy.float32) * n for n, name in enumerate("qkv", 1)}
    model = graph([*(("MatMul", f"x w{name}", name) for name in "qkv"), ("Sum", "q k v", "y")], weights, [2, 4], [2, 4])
    if installed < Version("0.8"):
        with pytest.raises(RuntimeError, match=r"insertAfter: Assertion `!inGraphList\(\) && n->inGraphList\(\)`"):
            onnxsim.simplify(model)
    else:
        assert ops(onnxsim.simplify(model)[0]) == {"MatMul": 3, "Sum": 1}
    for plugin in ("fuse_qkv_off", "linear_kept"):
        with hookpatch.active(plugin):
            assert ops(onnxsim.simplify(model)[0]) == {"MatMul": 3, "Sum": 1}
