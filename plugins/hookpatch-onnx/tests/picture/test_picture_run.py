"""`hookpatch run --graph-diff` runs an unmodified program plain and patched, and compares the models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from picture_models import norms

NO_TORCH = "torch is not installed: no build for this Python"
pytestmark = [pytest.mark.model, pytest.mark.skipif(find_spec("torch") is None, reason=NO_TORCH)]

PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from onnxsim import simplify

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(8, 8, bias=False) for _ in range(3))

    def forward(self, x):
        x = x.relu()
        return torch.softmax(self.q(x) @ self.k(x).mT, -1) @ self.v(x)

torch.manual_seed(0)
program = torch.onnx.export(Attention().eval(), (torch.ones(2, 4, 8),), dynamo=True, verbose=False)
model, _ = simplify(program.model_proto)
print(sys.argv[1:], __name__, len(model.graph.node))
sys.exit(int(sys.argv[1]))
"""


def hookpatch(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOOKPATCH_")}
    command = [sys.executable, "-m", "hookpatch", *words]
    return subprocess.run(command, cwd=folder, env={**clean, **variables}, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def both_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the program; return the folder and the finished process."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "export.py").write_text(PROGRAM)
    return folder, hookpatch(folder, "run", "--graph-diff", "out", "-p", "fuse_qkv_off", "export.py", "5", "-p")


def test_words_are_those_of_both_runs_and_of_what_they_differ_in(
    both_runs: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """The program's output comes twice, before each pair of models; status and arguments are the patched program's."""
    _, ran = both_runs
    assert ran.returncode == 5
    assert ran.stdout == (
        "['5', '-p'] __main__ 7\n"
        "['5', '-p'] __main__ 8\n"
        "\n"
        "exported\n"
        "plain/001-exported.onnx → patched/001-exported.onnx\n"
        "no difference: 8 nodes in both\n"
        "drawn in out/exported.html\n"
        "\n"
        "before-simplify\n"
        "plain/002-before-simplify.onnx → patched/002-before-simplify.onnx\n"
        "no difference: 8 nodes in both\n"
        "drawn in out/before-simplify.html\n"
        "\n"
        "simplified\n"
        "plain/003-simplified.onnx → patched/003-simplified.onnx\n"
        "patched by fuse_qkv_off\n"
        "7 nodes → 8: 5 as they were, 2 lost, 3 gained\n"
        "\n"
        "op       before   after     \n"
        "────────────────────────────\n"
        "MatMul        3       5   +2\n"
        "Split         1       0   -1\n"
        "\n"
        "   1 place  MatMul, Split → 3 MatMul  (linear_2)\n"
        "            1 initializer int64[3] lost\n"
        "            1 initializer float32[8, 24] lost\n"
        "            3 initializers float32[8, 8] gained\n"
        "drawn in out/simplified.html\n"
    )


def test_it_is_said_that_the_program_is_run_twice(both_runs: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """stderr has a line at the beginning of each run."""
    _, ran = both_runs
    lines = [line for line in ran.stderr.splitlines() if line.startswith("hookpatch: ")]
    assert lines == [
        "hookpatch: --graph-diff: the program is run twice; now plain",
        "hookpatch: --graph-diff: the plain run ended with status 5; the models exported before are compared",
        "hookpatch: --graph-diff: now patched",
    ]


def test_words_and_pages_are_in_the_folder(both_runs: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """The folder has text and page of each pair, and the models without weights for another comparison."""
    folder, ran = both_runs
    names = ("before-simplify", "exported", "simplified")
    file_names = sorted(path.name for path in (folder / "out").iterdir() if path.is_file())
    assert file_names == [f"{name}.{kind}" for name in names for kind in ("html", "txt")]
    assert (folder / "out" / "simplified.txt").read_text().rstrip() in ran.stdout
    page = (folder / "out" / "simplified.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert (data["patches"], data["ops"]) == (["fuse_qkv_off"], {"MatMul": [3, 5], "Split": [1, 0]})
    again = hookpatch(folder, "onnx", "diff", "out/plain", "out/patched")
    assert (
        again.stdout
        == "\n".join(line for line in ran.stdout.splitlines()[2:] if not line.startswith("drawn in")) + "\n"
    )


def test_program_without_a_model_is_told(tmp_path: Path) -> None:
    """Without a model to compare, the status is 78 if the program's own status is 0."""
    ran = hookpatch(tmp_path, "run", "--graph-diff", "out", "-p", "fuse_qkv_off", "-c", "print('ran')")
    assert (ran.stdout, ran.returncode) == ("ran\nran\n", 78)
    assert ran.stderr.splitlines()[-1] == (
        f"hookpatch: error: {tmp_path}/out/plain and {tmp_path}/out/patched: no model was recorded: "
        "neither torch.onnx.export nor onnxsim.simplify was called [hookpatch explain PictureError]"
    )


def test_models_that_only_one_run_has_made_are_told(tmp_path: Path) -> None:
    """Models are paired by kind and order; a pair with nothing in common does not stop the other comparisons."""
    first, second = tmp_path / "a", tmp_path / "b"
    relu = onnx.helper.make_node("Relu", ["z"], ["t"])
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT32, [1]) for name in "zt"]
    strange = onnx.helper.make_model(onnx.helper.make_graph([relu], "g", info[:1], info[1:]))
    files = {first / "001-exported.onnx": norms(1, True), first / "002-exported.onnx": norms(2, True)}
    files |= {second / "001-exported.onnx": strange, second / "002-exported.onnx": norms(2, False)}
    files |= {second / "003-simplified.onnx": norms(1, True)}
    for path, model in files.items():
        path.parent.mkdir(exist_ok=True)
        onnx.save(model, path)
    ran = hookpatch(tmp_path, "onnx", "diff", "a", "b")
    assert ran.returncode == 0
    text = ran.stdout.split("\n\n")
    assert text[0].splitlines() == [
        "",
        "exported-1",
        "a/001-exported.onnx and b/001-exported.onnx have nothing in common: none of the 2 nodes of the one is "
        "among the 1 of the other, and input 'x' float32[batch, 8] → 'z' int32[1]; compare two versions of the "
        "same model",
    ]
    assert text[1].splitlines()[0] == "exported-2"
    assert "   2 places RMSNormalization → Pow, ReduceMean, Add, Sqrt, Reciprocal, 2 Mul" in ran.stdout
    assert ran.stdout.endswith(
        "\nsimplified\nonly the second run has exported the model: the other run has none to compare\n"
    )
    comparisons = json.loads(hookpatch(tmp_path, "onnx", "diff", "a", "b", "--json").stdout)["comparisons"]
    assert [(pair["pair"], pair.get("problem")) for pair in comparisons] == [
        ("exported-1", text[0].splitlines()[2]),
        ("exported-2", None),
        ("simplified", "only the second run has exported the model: the other run has none to compare"),
    ]
    assert [len(place["gained"]) for place in comparisons[1]["graphs"][0]["places"]] == [7, 7]


@pytest.mark.parametrize(
    ("words", "disable", "problem"),
    [
        (["-"], "", "runs the program twice, and stdin can be read once; put it into a file"),
        (["script.py"], "1", "HOOKPATCH_DISABLE is set, and turns all patches off; unset the variable"),
    ],
)
def test_what_cannot_be_run_twice_is_refused(tmp_path: Path, words: list[str], disable: str, problem: str) -> None:
    """The refusal comes before the program is run and before a folder is made."""
    (tmp_path / "script.py").write_text("print('run')\n")
    completed = hookpatch(
        tmp_path, "run", "--graph-diff", "out", "-p", "fuse_qkv_off", *words, HOOKPATCH_DISABLE=disable
    )
    message = f"hookpatch: error: --graph-diff: {problem} [hookpatch explain SettingError]\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """A folder of an earlier run is refused, since models of two runs never mix; a file of the name is refused, too."""
    (tmp_path / "earlier" / "plain").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "script.py").write_text("print('run')\n")
    for folder, problem in (
        ("earlier", "earlier/plain is of an earlier run; name another folder"),
        ("file", "file cannot be written: Not a directory"),
    ):
        completed = hookpatch(tmp_path, "run", "--graph-diff", folder, "-p", "fuse_qkv_off", "script.py")
        message = f"hookpatch: error: --graph-diff: {problem} [hookpatch explain SettingError]\n"
        assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)
