"""The text of `hookpatch onnx diff`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
from picture_models import model, norms, renamed


def diff(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hookpatch", "onnx", "diff", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_fused_projections_in_words(gpt_neo: dict[str, Path]) -> None:
    """A pipe gets the whole text, without colours or broken lines."""
    completed = diff(gpt_neo["kept"], gpt_neo["fused"])
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert completed.stdout == (
        "kept.onnx → fused.onnx\n"
        "66 nodes → 64: 60 as they were, 6 lost, 4 gained\n"
        "\n"
        "op       before   after     \n"
        "────────────────────────────\n"
        "MatMul       17      13   -4\n"
        "Split         0       2   +2\n"
        "\n"
        "   2 places 3 MatMul → MatMul, Split  (linear_2, linear_8)\n"
        "            6 initializers float32[32, 32] lost\n"
        "            2 initializers float32[32, 96] gained\n"
        "            1 initializer int64[3] gained\n"
    )


def test_no_difference_in_words(tmp_path: Path) -> None:
    """Other names are no difference; the text counts the renamed nodes."""
    onnx.save(norms(1, as_one=True), tmp_path / "a.onnx")
    onnx.save(renamed(norms(1, as_one=True)), tmp_path / "b.onnx")
    unchanged, only_renamed = (diff(tmp_path / "a.onnx", tmp_path / name).stdout for name in ("a.onnx", "b.onnx"))
    assert unchanged == "a.onnx → a.onnx\nno difference: 2 nodes in both\n"
    assert only_renamed == "a.onnx → b.onnx\nno difference: 2 nodes in both; 1 node renamed\n"


def test_many_changes_are_told_by_their_kind(tmp_path: Path) -> None:
    """Equal changes share a line with the first three nodes; `--json` lists each change."""
    for name, exponent in (("a.onnx", 1), ("b.onnx", -1)):
        nodes = [
            onnx.helper.make_node("Softmax", [f"v{index}" if index else "x"], [f"v{index + 1}"], axis=exponent)
            for index in range(5)
        ]
        nodes[-1].output[0] = "y"
        onnx.save(model(nodes), tmp_path / name)
    assert diff(tmp_path / "a.onnx", tmp_path / "b.onnx").stdout == (
        "a.onnx → b.onnx\n5 nodes → 5: 0 as they were, 5 changed\n\n"
        "   5 nodes  Softmax  axis: 1 → -1  (v1, v2, v3, …)\n"
    )
    (answer,) = json.loads(diff(tmp_path / "a.onnx", tmp_path / "b.onnx", "--json").stdout)["comparisons"]
    (graph,) = answer.pop("graphs")
    assert answer == {
        "before": "a.onnx",
        "after": "b.onnx",
        "same": False,
        "patches": {"before": [], "after": []},
        "ops": {},
        "model": [],
    }
    assert (graph["nodes"], graph["places"]) == ({"before": 5, "after": 5, "same": 0}, [])
    assert graph["changed"][0] == {"op": "Softmax", "name": "", "output": "v1", "changes": ["axis: 1 → -1"]}


def test_patches_are_named_where_they_are_known(tmp_path: Path) -> None:
    """The text names the patches called before a recorded model was made, and the plugin noted in a node."""
    onnx.save(norms(2, as_one=False), tmp_path / "a.onnx")
    after = norms(2, as_one=True)
    for node in after.graph.node:
        if node.op_type == "RMSNormalization":
            node.metadata_props.add(key="hookpatch.plugin", value="rmsnorm_node")
    for called, prefix in (("rmsnorm_node", "patched by "), ("gelu_node,rmsnorm_node", "patches called: ")):
        del after.metadata_props[:]
        after.metadata_props.add(key="hookpatch.patches", value=called)
        onnx.save(after, tmp_path / "b.onnx")
        lines = diff(tmp_path / "a.onnx", tmp_path / "b.onnx").stdout.splitlines()
        assert lines[1] == prefix + called.replace(",", ", ")
        assert lines[-2].startswith(
            "   2 places Pow, ReduceMean, Add, Sqrt, Reciprocal, 2 Mul → RMSNormalization  by rmsnorm_node  ("
        )


def test_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    """A file without a model is an error line with status 78, as all errors of hookpatch."""
    path = tmp_path / "a.onnx"
    path.write_text("not a model\n")
    completed = diff(path, path)
    assert (completed.stdout, completed.returncode) == ("", 78)
    message = f"{path} is not an ONNX model: the file is text; give the binary .onnx file"
    assert completed.stderr == f"hookpatch: error: {message} [hookpatch explain ModelFileError]\n"
