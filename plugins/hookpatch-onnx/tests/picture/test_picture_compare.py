"""The comparison of two models matches nodes by structure and by name, and lists each difference by node."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import pytest
from hookpatch_onnx._compare.compare import Comparison, compare
from hookpatch_onnx._model.read import read
from hookpatch_onnx.errors import NothingInCommonError
from onnx import TensorProto, helper
from picture_models import model, norms, renamed, weight


def compared(before: onnx.ModelProto, after: onnx.ModelProto) -> Comparison:
    return compare(before, after, ("before", "after"))


def patterns(comparison: Comparison, graph_index: int = 0) -> dict[tuple[str, str], int]:
    return dict(Counter(place.pattern for place in comparison.graphs[graph_index].places))


def changes(comparison: Comparison, graph_index: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    graph = comparison.graphs[graph_index]
    return [(graph.before.nodes[index].label, lines) for index, lines in graph.changed.items()]


SEVEN = "Pow, ReduceMean, Add, Sqrt, Reciprocal, 2 Mul"


def test_model_is_as_itself() -> None:
    """A model compared with an equal model has no difference; each node is matched with the same node."""
    comparison = compared(norms(3, as_one=False), norms(3, as_one=False))
    assert comparison.is_empty
    assert comparison.graphs[0].matches == {index: index for index in range(24)}


@pytest.mark.parametrize("seed", range(5))
def test_names_and_the_order_in_the_file_mean_nothing(seed: int, gpt_neo: dict[str, Path]) -> None:
    """A real model with other names and another order of nodes differs in names alone."""
    for name in ("exported", "fused"):
        original = read(gpt_neo[name])
        comparison = compared(original, renamed(original, seed))
        assert comparison.is_empty
        assert comparison.graphs[0].renamed == len(original.graph.node) - 1  # the name of the output is kept


@pytest.mark.parametrize("prefix", ["v", "other"])
def test_norm_of_seven_nodes_is_one_node(prefix: str) -> None:
    """Each norm is a separate place, also with all names changed; the nodes between the norms are matched."""
    comparison = compared(norms(4, as_one=False), norms(4, as_one=True, prefix=prefix))
    assert patterns(comparison) == {(SEVEN, "RMSNormalization"): 4}
    assert changes(comparison) == []
    assert comparison.ops() == {
        "Mul": (8, 0),
        **dict.fromkeys(("Add", "Pow"), (4, 0)),
        "RMSNormalization": (0, 4),
        **dict.fromkeys(("Reciprocal", "ReduceMean", "Sqrt"), (4, 0)),
    }


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_fused_projections_are_one_place_a_layer(gpt_neo: dict[str, Path], seed: int | None) -> None:
    """Real models without and with fuse_qkv: a place has three MatMul before, a MatMul and a Split after."""
    unfused, fused = read(gpt_neo["kept"]), read(gpt_neo["fused"])
    comparison = compared(unfused, fused if seed is None else renamed(fused, seed))
    assert patterns(comparison) == {("3 MatMul", "MatMul, Split"): 2}
    assert changes(comparison) == []
    assert comparison.graphs[0].ends == ()
    if seed is None:
        assert comparison.graphs[0].initializers == (
            "6 initializers float32[32, 32] lost",
            "2 initializers float32[32, 96] gained",
            "1 initializer int64[3] gained",
        )


def test_both_ways_are_mirrored(gpt_neo: dict[str, Path]) -> None:
    """Nodes lost in a comparison are gained in the reverse comparison, and the matches are the same."""
    forward = compared(read(gpt_neo["kept"]), read(gpt_neo["fused"]))
    backward = compared(read(gpt_neo["fused"]), read(gpt_neo["kept"]))
    assert patterns(backward) == {("MatMul, Split", "3 MatMul"): 2}
    assert {match: index for index, match in forward.graphs[0].matches.items()} == backward.graphs[0].matches


def test_what_the_simplifier_took_away_is_told(gpt_neo: dict[str, Path]) -> None:
    """The lost nodes are the sums with zero biases and a Reshape without effect; all other nodes are unchanged."""
    comparison = compared(read(gpt_neo["exported"]), read(gpt_neo["kept"]))
    assert patterns(comparison) == {("Add", "nothing"): 6, ("Reshape", "nothing"): 1}
    assert changes(comparison) == []


def test_what_was_folded_is_said_to_be_a_constant() -> None:
    """A node computed from weights alone is replaced by a constant; the reverse comparison is mirrored."""
    add = helper.make_node("Add", ["x", "b"], ["y"])
    computed = model([helper.make_node("Relu", ["w"], ["b"]), add], [weight("w", 8)])
    folded = model([add], [weight("b", 8)])
    assert patterns(compared(computed, folded)) == {("Relu", "a constant"): 1}
    assert patterns(compared(folded, computed)) == {("a constant", "Relu"): 1}


def test_attributes_and_small_constants_are_told() -> None:
    """Another attribute, another small constant, another shape of a weight: each is listed at the node, by value."""

    def reshaped(axis: int, shape: list[int], width: int) -> onnx.ModelProto:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Reshape", ["a", "shape"], ["b"]),
            helper.make_node("Softmax", ["b"], ["y"], **({"axis": axis} if axis else {})),
        ]
        return model(nodes, [weight("w", 8, width), helper.make_tensor("shape", TensorProto.INT64, [2], shape)])

    comparison = compared(reshaped(1, [0, -1], 8), reshaped(-1, [1, -1], 16))
    assert changes(comparison) == [
        ("a", ("input 1: float32[8, 8] → float32[8, 16]",)),
        ("b", ("input 1: [0, -1] → [1, -1]",)),
        ("y", ("axis: 1 → -1",)),
    ]
    assert comparison.graphs[0].initializers == ("initializer 'w': float32[8, 8] → float32[8, 16]",)
    by_default = compared(reshaped(0, [0, -1], 8), reshaped(1, [0, -1], 8))
    assert changes(by_default) == [("y", ("axis: -1 → 1",))]


def test_default_that_is_given_is_no_difference() -> None:
    """A default written by an exporter is no difference; a default changed by an opset is a difference."""

    def with_opset(opset: int, **attributes: int) -> onnx.ModelProto:
        return model([helper.make_node("Softmax", ["x"], ["y"], **attributes)], opset=opset)

    assert compared(with_opset(23), with_opset(23, axis=-1)).is_empty
    assert changes(compared(with_opset(11), with_opset(13))) == [("y", ("axis: 1 → -1",))]


def test_inputs_that_commute_may_change_places() -> None:
    """a + b is b + a; a - b is not b - a."""

    def with_op(op: str, *inputs: str) -> onnx.ModelProto:
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Exp", ["x"], ["e"])]
        return model([*nodes, helper.make_node(op, inputs, ["y"])])

    assert compared(with_op("Add", "r", "e"), with_op("Add", "e", "r")).is_empty
    assert changes(compared(with_op("Sub", "r", "e"), with_op("Sub", "e", "r"))) == [
        ("y", ("input 0: Relu 'r' → Exp 'e'", "input 1: Exp 'e' → Relu 'r'"))
    ]


def test_inputs_and_outputs_are_compared_by_name_else_by_place() -> None:
    """Another name alone is no difference, another type is a difference; names of dimensions are ignored."""
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    before, after = model(relu), model(relu, shape=("n", 8))
    assert compared(before, after).is_empty
    called = renamed(before)
    called.graph.input[0].name = called.graph.node[0].input[0] = "tokens"
    assert compared(before, called).is_empty
    assert compared(before, model(relu, shape=("batch", 16))).graphs[0].ends == (
        "input 'x': float32[batch, 8] → float32[batch, 16]",
        "output 'y': float32[batch, 8] → float32[batch, 16]",
    )
    called.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, ["n"]))
    assert compared(before, called).graphs[0].ends == ("input 'mask' bool[n] is gained",)


def test_constant_node_is_an_initializer() -> None:
    """A Constant node of an exporter and the initializer of a simplifier are equal, also in the count of operators."""
    relu = helper.make_node("Relu", ["s"], ["y"])
    add = helper.make_node("Add", ["x", "one"], ["s"])
    tensor = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    comparison = compared(
        model([helper.make_node("Constant", [], ["one"], value=tensor), add, relu]), model([add, relu], [tensor])
    )
    assert (patterns(comparison), changes(comparison), comparison.ops()) == ({}, [], {})
    as_float = helper.make_node("Constant", [], ["one"], value_float=2.0)
    assert changes(compared(model([add, relu], [tensor]), model([as_float, add, relu]))) == [("s", ("input 1: 1 → 2",))]


def test_graphs_in_nodes_are_compared_too() -> None:
    """A branch of an If has a separate comparison, and a renamed value of the outer graph is no difference."""

    def with_branches(op: str, outer: str) -> onnx.ModelProto:
        out = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
        then_graph = helper.make_graph(
            [helper.make_node("Exp", [outer], ["i"]), helper.make_node(op, ["i"], ["o"])], "t", [], out
        )
        else_graph = helper.make_graph([helper.make_node("Relu", [outer], ["o"])], "e", [], out)
        nodes = [helper.make_node("Relu", ["x"], [outer]), helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL)]
        return model([*nodes, helper.make_node("If", ["c"], ["y"], then_branch=then_graph, else_branch=else_graph)])

    comparison = compared(with_branches("Exp", "r"), with_branches("Sqrt", "renamed"))
    assert [graph.title for graph in comparison.graphs] == ["", "If 'y' else_branch", "If 'y' then_branch"]
    assert [graph.is_empty for graph in comparison.graphs] == [True, True, False]
    assert patterns(comparison, 2) == {("Exp", "Sqrt"): 1}
    assert comparison.ops() == {"Exp": (2, 1), "Sqrt": (0, 1)}


def test_local_functions_are_compared_by_their_names() -> None:
    """Functions of both models are compared by body; a function of a single model is listed as lost or gained."""

    def with_function(name: str, op: str) -> onnx.ModelProto:
        body = [helper.make_node(op, ["a"], ["b"])]
        function = helper.make_function("my", name, ["a"], ["b"], body, [helper.make_opsetid("", 23)])
        return model([helper.make_node(name, ["x"], ["y"], domain="my")], functions=[function])

    comparison = compared(with_function("Act", "Relu"), with_function("Act", "Gelu"))
    assert [graph.title for graph in comparison.graphs] == ["", "function my.Act"]
    assert patterns(comparison, 1) == {("Relu", "Gelu"): 1}
    disjoint = compared(with_function("Act", "Relu"), with_function("Other", "Relu"))
    assert disjoint.model == ("function my.Act is lost", "function my.Other is gained")
    assert patterns(disjoint) == {("my.Act", "my.Other"): 1}


def test_opsets_are_told() -> None:
    """A change of opset is listed with the domain."""
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    assert compared(model(relu, opset=20), model(relu, opset=23)).model == ("opset ai.onnx: 20 → 23",)


def test_crossed_matches_are_given_up() -> None:
    """If two nodes have changed places, by name and weight, only a single match is kept."""
    ours, theirs = weight("layer.a.weight", 8, 8), weight("layer.b.weight", 8, 8)

    def in_order(*names: str) -> onnx.ModelProto:
        first, second = names
        nodes = [
            helper.make_node("MatMul", ["x", f"layer.{first}.weight"], [f"layer.{first}.out"], name=first),
            helper.make_node("Relu", [f"layer.{first}.out"], ["r"]),
            helper.make_node("Gemm", ["r", f"layer.{second}.weight"], ["y"]),
        ]
        if first == "b":
            nodes[0].op_type, nodes[2].op_type = "Gemm", "MatMul"
        return model(nodes, [ours, theirs])

    graph = compared(in_order("a", "b"), in_order("b", "a")).graphs[0]
    assert len(graph.matches) == 1
    assert len(graph.lost) == len(graph.gained) == 2


@pytest.mark.parametrize("is_renamed", [False, True])
def test_each_single_edit_of_a_real_model_is_found_and_nothing_else(gpt_neo: dict[str, Path], is_renamed: bool) -> None:
    """A node removed, added or exchanged at any place of a real model is the only difference found."""
    original = read(gpt_neo["fused"])
    for index, node in enumerate(original.graph.node):
        if len(node.output) > 1 or node.op_type == "Gather":
            continue
        for edit in ("out", "in", "other"):
            edited = onnx.ModelProto()
            edited.CopyFrom(original)
            mine = edited.graph.node[index]
            if edit == "other":
                mine.op_type, mine.domain = "Other", "my"
            elif edit == "in":
                wire = helper.make_node("Neg", [f"{node.output[0]} before"], [node.output[0]])
                mine.output[0] = wire.input[0]
                edited.graph.node.insert(index + 1, wire)
            elif index + 1 < len(original.graph.node):
                del edited.graph.node[index]
                for user in edited.graph.node:
                    for slot, name in enumerate(user.input):
                        if name == node.output[0]:
                            user.input[slot] = node.input[0]
            else:
                continue
            comparison = compared(original, renamed(edited, index) if is_renamed else edited).graphs[0]
            counts = len(comparison.lost), len(comparison.gained), len(comparison.changed), len(comparison.places)
            wanted = {"out": (1, 0, 0, 1), "in": (0, 1, 0, 1), "other": (1, 1, 0, 1)}[edit]
            assert counts == wanted, (edit, node.op_type, node.output[0])


def test_two_models_with_nothing_in_common_are_refused(gpt_neo: dict[str, Path]) -> None:
    """Two models without a common node raise an error with both descriptions, not a picture in red and green."""
    with pytest.raises(NothingInCommonError) as caught:
        compare(norms(2, as_one=True), read(gpt_neo["fused"]), ("norms.onnx", "neo.onnx"))
    assert str(caught.value) == (
        "norms.onnx and neo.onnx have nothing in common: none of the 4 nodes of the one is among the 64 of the other, "
        "and input 'x' float32[batch, 8] → 'input_ids' int64[1, 8]; compare two versions of the "
        "same model"
    )


def test_all_other_nodes_between_the_same_ends_are_a_difference() -> None:
    """A single node in place of all nodes, between the same inputs and outputs, is a difference and no error."""
    comparison = compared(
        model([helper.make_node("Relu", ["x"], ["y"])]), model([helper.make_node("Act", ["x"], ["y"], domain="my")])
    )
    assert patterns(comparison) == {("Relu", "my.Act"): 1}
