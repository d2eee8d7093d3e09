"""Distances: both models run on one input, and their weights compared (`hookpatch onnx diff --run`, `--weights`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from hookpatch_onnx._compare.compare import compare
from hookpatch_onnx._measure.distance import distance
from hookpatch_onnx._measure.inputs import arrays_in, feeds_of
from hookpatch_onnx._measure.measured import Measured, measure
from hookpatch_onnx._model.read import read
from hookpatch_onnx._picture.html_page import data_of
from hookpatch_onnx.errors import ModelRunError
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: no build for this Python")

Nodes = list[onnx.NodeProto]
node = helper.make_node


def tensor(name: str, *shape: int, seed: int = 0, dtype: str = "float32") -> onnx.TensorProto:
    """Return a weight drawn from a normal distribution."""
    numbers = numpy.random.default_rng(seed).standard_normal(shape)
    return numpy_helper.from_array(numpy.asarray(numbers, dtype), name)


def write_model(
    path: Path,
    nodes: Nodes,
    weights: Iterable[onnx.TensorProto] = (),
    inputs: dict[str, tuple[int, list[Any]]] | None = None,
    out: list[Any] | None = None,
) -> Path:
    """Write a model with the output y; the input is x, float32[2, 8], unless inputs are given."""
    ends = {name: (TensorProto.FLOAT, [2, 8]) for name in "x"} if inputs is None else inputs
    infos = [helper.make_tensor_value_info(name, *kind) for name, kind in ends.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None] if out is None else out)]
    graph = helper.make_graph(nodes, "g", infos, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.parent.mkdir(exist_ok=True)
    onnx.save(model, path)
    return path


def measured(before: Path, after: Path, seed: int | None = 0, **arrays: Any) -> Measured:
    return measure(compare(read(before), read(after), ("a", "b")), (before, after), arrays, seed)


def effects(result: Measured) -> list[str]:
    return [change.effect for change in (*result.places, *(result.changed or {}).values())]


def chain(words: str, **attributes: Any) -> Nodes:
    """Return a chain from x to y of operators, each with further inputs behind colons; attributes for the last one."""
    steps = [word.split(":") for word in words.split()]
    names = ["x", *(f"h{index}" for index in range(1, len(steps))), "y"]
    nodes = []
    for index, (op, *extra) in enumerate(steps):
        # An empty input is the chain.
        mine = [name or names[index] for name in extra] if "" in extra else [names[index], *extra]
        nodes.append(node(op, mine, [names[index + 1]], **(attributes if index == len(steps) - 1 else {})))
    return nodes


SCALE = [numpy_helper.from_array(numpy.array(value, numpy.float32), name) for name, value in (("c", 3), ("d", 1 / 3))]
CHANGES: dict[str, tuple[Nodes, Nodes, list[str]]] = {
    "a node that did nothing is lost": (chain("MatMul:w Identity Relu"), chain("MatMul:w Relu"), ["equal"]),
    "a product for a quotient": (chain("MatMul:w Div:c Relu"), chain("MatMul:w Mul:d Relu"), ["rounding"]),
    "another operator at the end": (chain("MatMul:w Relu"), chain("MatMul:w Tanh"), ["differs"]),
    "another attribute": (
        chain("MatMul:w LeakyRelu", alpha=0.1),
        chain("MatMul:w LeakyRelu", alpha=0.4),
        ["differs"],
    ),
    "a change without effect behind one with": (
        chain("MatMul:w Relu MatMul:v Identity Abs"),
        chain("MatMul:w Tanh MatMul:v Abs"),
        ["differs", "passed on"],
    ),
    "an input that commutes": (chain("MatMul:w Relu Add:x8"), chain("MatMul:w Abs Add:x8:"), ["differs"]),
    "another shape behind the change, the same further on": (
        chain("MatMul:w Transpose ReduceMax Abs"),
        chain("MatMul:w ReduceMax Abs"),
        ["equal"],
    ),
    "no value of one shape": (
        chain("MatMul:w ReduceSum", keepdims=0),
        chain("MatMul:w ReduceSum", keepdims=1),
        ["not measured"],
    ),
}


@pytest.mark.parametrize(("before", "after", "wanted"), CHANGES.values(), ids=CHANGES)
def test_each_change_says_what_it_does(tmp_path: Path, before: Nodes, after: Nodes, wanted: list[str]) -> None:
    """The numbers behind a change are equal, apart by rounding, other; or as far apart as before the change."""
    weights = [tensor("w", 8, 8), tensor("v", 8, 8, seed=1), tensor("x8", 2, 8), *SCALE]
    result = measured(
        write_model(tmp_path / "a.onnx", before, weights), write_model(tmp_path / "b.onnx", after, weights)
    )
    assert effects(result) == wanted
    assert (result.weights.equal, result.weights.changes) == (5, ())


def test_distance_counts_what_is_no_number() -> None:
    """Equal infinities and two NaNs are equal; a NaN in one array alone is infinitely far; other shapes have none."""
    nan, inf = numpy.nan, numpy.inf
    for ours, theirs, wanted in (
        ([1.0, nan, inf], [1.0, nan, inf], ("equal", 0.0)),
        ([1.0, 2.0], [1.0, nan], ("differs", inf)),
        ([inf, 2.0], [-inf, 2.0], ("differs", inf)),
        ([4.0, 2.0], [4.0, 1.0], ("differs", 0.25)),
        ([0.0, 0.0], [0.0, 0.0], ("equal", 0.0)),
        ([True, False], [True, True], ("differs", 1.0)),
        ([3, 4], [3, 5], ("differs", 0.2)),
        (1.0, 1.5, ("differs", 1 / 3)),
    ):
        apart = distance(ours, theirs)
        assert apart is not None
        assert (apart.verdict, apart.relative) == (wanted[0], pytest.approx(wanted[1]))
    assert distance([1.0], [[1.0]]) is None
    assert distance(["a"], ["b"]) is None
    assert distance([[1.0], [1.0, 2.0]], [1.0]) is None
    half = distance(numpy.array([1], "float16"), numpy.array([1.005], "float16"))
    assert half is not None
    assert half.words == "0.0049 apart (rounding)"


def test_weights_are_compared_by_content(tmp_path: Path) -> None:
    """Of weights the users, the content and the name make pairs; each difference has a kind."""
    chain = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["i"]), node("Mul", ["i", "s"], ["y"])]
    changed = [node("MatMul", ["x", "q1"], ["h"]), node("Add", ["q2", "h"], ["i"]), node("Mul", ["i", "s"], ["y"])]
    ours = [tensor("w", 8, 8), tensor("b", 8), tensor("s", 8), tensor("left", 5), tensor("moved", 30)]
    bigger = numpy_helper.to_array(ours[0]) + numpy.float32(0.5)
    theirs = [
        numpy_helper.from_array(bigger, "q1"),
        tensor("q2", 8),
        tensor("s", 2, 8),
        tensor("new", 6),
        tensor("m", 30),
    ]
    before, after = write_model(tmp_path / "a.onnx", chain, ours), write_model(tmp_path / "b.onnx", changed, theirs)
    for path in (after, tmp_path / "c.onnx"):  # once more with the weights beside the model
        result = measured(before, path, None).weights
        assert result.words == "2 equal, 1 other values, 1 another type or shape, 1 only before, 1 only after"
        values, kind, lost, gained = result.changes
        assert (values.name, values.type, values.distance and values.distance.largest) == (
            "w → q1",
            "float32[8, 8]",
            pytest.approx(0.5),
        )
        assert [(change.name, change.type) for change in (kind, lost, gained)] == [
            ("s", "float32[8] → float32[2, 8]"), ("left", "float32[5]"), ("new", "float32[6]"),
        ]  # fmt: skip
        onnx.save(
            onnx.load(after), tmp_path / "c.onnx", save_as_external_data=True, location="c.data", size_threshold=0
        )
    assert effects(measured(before, tmp_path / "c.onnx")) == effects(measured(before, after))


def test_weight_in_a_constant_node_is_the_same_weight(tmp_path: Path) -> None:
    """An initializer before and a Constant node after, of one content, are equal."""
    weight = tensor("w", 8, 8)
    constant = node("Constant", [], ["w"], value=weight)
    before = write_model(tmp_path / "a.onnx", [node("MatMul", ["x", "w"], ["y"])], [weight])
    result = measured(before, write_model(tmp_path / "b.onnx", [constant, node("MatMul", ["x", "w"], ["y"])]))
    assert (result.weights.words, (result.outputs or {})["y"].words) == ("1 equal", "equal")


TOKENS = [node("Cast", ["ids"], ["at"], to=TensorProto.INT64), node("Gather", ["table", "at"], ["rows"])]
MASKED = [*TOKENS, node("Where", ["mask", "rows", "rows"], ["y"])]


def test_inputs_fit_what_the_models_declare(tmp_path: Path) -> None:
    """Indices are rows of their table, masks are true; an open size is that of the other model, a name has one size."""
    kinds = {"ids": TensorProto.INT32, "mask": TensorProto.BOOL, "f": TensorProto.FLOAT16, "n": TensorProto.INT64}
    open_ = {name: (kind, ["batch", "length"][: 1 if name == "n" else 2]) for name, kind in kinds.items()}
    open_["mask"] = (TensorProto.BOOL, ["batch", 1])
    fixed = {**open_, "ids": (TensorProto.INT32, [3, 5])}
    table = [tensor("table", 4, 1)]
    paths = [write_model(tmp_path / name, MASKED, table, ends) for name, ends in (("a.onnx", open_), ("b.onnx", fixed))]
    graph = compare(read(paths[0]), read(paths[1]), ("a", "b")).graphs[0]
    ours, theirs = feeds_of(graph, {}, 0)
    assert {name: (str(array.dtype), array.shape) for name, array in ours.items()} == {
        "ids": ("int32", (3, 5)), "mask": ("bool", (3, 1)), "f": ("float16", (3, 5)), "n": ("int64", (3,)),
    }  # fmt: skip
    assert all((ours[name] == theirs[name]).all() for name in ours)
    assert set(ours["ids"].flat) <= {0, 1, 2, 3}
    assert len(set(ours["ids"].flat)) > 1
    assert ours["mask"].all()
    assert (ours["n"] == 1).all()
    assert (feeds_of(graph, {}, 0)[0]["f"] == ours["f"]).all()
    assert (feeds_of(graph, {}, 1)[0]["f"] != ours["f"]).any()


def test_given_inputs_are_used(tmp_path: Path) -> None:
    """What the user gives goes in: with it a change that never acts on other inputs differs."""
    clip = [helper.make_node("Clip", ["x", "", "most"], ["y"])]
    most = numpy_helper.from_array(numpy.array(100, numpy.float32), "most")
    before, after = (
        write_model(tmp_path / "a.onnx", [node("Identity", ["x"], ["y"])]),
        write_model(tmp_path / "b.onnx", clip, [most]),
    )
    numpy.savez(tmp_path / "in.npz", x=numpy.full((2, 8), 500, numpy.float32))
    arrays = arrays_in(tmp_path / "in.npz")
    assert [effects(measured(before, after)), effects(measured(before, after, **arrays))] == [["equal"], ["differs"]]


def test_what_cannot_be_measured_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason is one clear error that names the model or the input."""
    relu, strange = [node("Relu", ["x"], ["y"])], [node("Relu", ["x"], ["h"]), node("Nope", ["h"], ["y"])]
    plain, unknown = write_model(tmp_path / "a.onnx", relu), write_model(tmp_path / "b.onnx", strange)
    wide = write_model(tmp_path / "wide.onnx", relu, inputs={"x": (TensorProto.FLOAT, [3, 8])})
    words = write_model(tmp_path / "words.onnx", relu, inputs={"x": (TensorProto.STRING, [2])})
    recorded = write_model(tmp_path / "recorded.onnx", chain("MatMul:w Relu"), [tensor("w", 8, 8)])
    light = read(recorded)
    recorded.write_bytes(light.SerializeToString())
    x = "input 'x' cannot be measured:"
    for files, arrays, message in (
        ((plain, unknown), {}, f"{unknown} cannot be measured: ONNX Runtime refuses: [ONNXRuntimeError] : "),
        ((plain, plain), {"z": numpy.ones(1)}, "input 'z' cannot be measured: no model has it; the inputs are x"),
        ((plain, plain), {"x": numpy.ones(3, "float32")}, f"{plain} cannot be measured: ONNX Runtime refuses: "),
        ((plain, wide), {}, f"{x} float32[2, 8] before and float32[3, 8] after: no input fits both; "),
        ((words, words), {}, f"{x} an input of string[2] cannot be made; give --inputs FILE.npz"),
        ((recorded, recorded), {}, f"{recorded} cannot be measured: weight 'w' has no data: a recorded model "),
    ):  # fmt: skip
        with pytest.raises(ModelRunError) as failed:
            measured(*files, **arrays)
        assert str(failed.value).startswith(message)
    (tmp_path / "no.npz").write_text("no")
    with pytest.raises(ModelRunError, match=r"no\.npz cannot be measured: is not a \.npz file of arrays: "):
        arrays_in(tmp_path / "no.npz")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelRunError) as failed:
        measured(plain, plain)
    message = "onnxruntime is not installed; pip install onnxruntime, or leave --run out"
    assert str(failed.value) == f"{plain} cannot be measured: {message}"


def diff(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hookpatch", "onnx", "diff", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd)


def test_command_says_the_distances(tmp_path: Path) -> None:
    """The text, the JSON and the page have the distance of each change, of the outputs and of the weights."""
    before, after, _ = CHANGES["a change without effect behind one with"]
    write_model(tmp_path / "one" / "a.onnx", before, [tensor("w", 8, 8), tensor("v", 8, 8, seed=1)])
    write_model(tmp_path / "two" / "a.onnx", after, [tensor("w", 8, 8), tensor("v", 8, 8, seed=1)])
    completed = diff("one/a.onnx", "two/a.onnx", "--run", cwd=tmp_path)
    assert (completed.stderr, completed.returncode) == ("", 0)
    lines = completed.stdout.splitlines()
    assert lines[2] == "run on one input, seed 0: x float32[2, 8]; distances are relative to the largest value"
    assert lines[4] == "weights: 2 equal"
    assert lines[3].startswith("            output 'y' 0.")
    (answer,) = json.loads(diff("one/a.onnx", "two/a.onnx", "--run", "--json", cwd=tmp_path).stdout)["comparisons"]
    (relu, identity) = [line for line in lines if line.startswith("   1 place")]
    numbers = [place["measure"]["behind"]["relative"] for place in answer["graphs"][0]["places"]]
    apart, behind = (f"{number:.2g} apart" for number in numbers)
    before_it = f"{answer['graphs'][0]['places'][1]['measure']['incoming']['relative']:.2g} apart"
    assert relu == f"   1 place  Relu → Tanh  {apart}  (h2)"
    assert identity == f"   1 place  Identity → nothing  {behind}; {before_it} before it  (h4)"
    assert [place["measure"]["effect"] for place in answer["graphs"][0]["places"]] == ["differs", "passed on"]
    assert answer["graphs"][0]["places"][0]["measure"]["at"] == ["h2", "h2"]
    assert answer["weights"] == {"equal": 2, "changes": []}
    assert (answer["run"]["seed"], answer["run"]["outputs"]["y"]["effect"]) == (0, "differs")
    (plain,) = json.loads(diff("one", "two", "--weights", "--json", cwd=tmp_path).stdout)["comparisons"]
    assert plain["weights"] == {"equal": 2, "changes": []}
    assert "run" not in plain
    first, second = tmp_path / "one" / "a.onnx", tmp_path / "two" / "a.onnx"
    comparison = compare(read(first), read(second), ("a", "b"))
    data = data_of(comparison, measure(comparison, (first, second), {}, 0))
    assert [place["measure"]["effect"] for place in data["graphs"][0]["places"]] == ["differs", "passed on"]
    assert data["run"]["outputs"][0]["words"] in lines[3]
    assert data["weights"] == {"words": "2 equal", "changes": []}


def test_recorded_models_are_compared_without_distances(tmp_path: Path) -> None:
    """A pair that cannot be run is told; the other pairs are compared all the same."""
    for folder in ("one", "two"):
        for name, is_light in (("001-exported.onnx", True), ("002-exported.onnx", False)):
            path = write_model(tmp_path / folder / name, [node("MatMul", ["x", "w"], ["y"])], [tensor("w", 8, 8)])
            if is_light:
                path.write_bytes(read(path).SerializeToString())
    completed = diff("one", "two", "--run", cwd=tmp_path)
    assert completed.returncode == 0
    assert "weight 'w' has no data: a recorded model has none; compare the models themselves" in completed.stdout
    assert completed.stdout.count("output 'y' equal") == 1
