"""The recorder keeps exported and simplified models without weights, and leaves the models of the program whole."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxsim
import pytest
from hookpatch_onnx._model.read import pruned, read
from picture_models import model, norms, weight

import hookpatch

torch = pytest.importorskip("torch", reason="torch is not installed: no build for this Python")

pytestmark = pytest.mark.model


class Net(torch.nn.Module):
    """A Linear with 64 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(x).relu()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        yield


def recording(folder: Path, *plugins: str) -> hookpatch.Session:
    return hookpatch.active("onnx", *plugins, options={"onnx": {"folder": str(folder)}}, count=True)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def has_data(path: Path) -> dict[str, bool]:
    return {tensor.name: bool(tensor.raw_data) for tensor in onnx.load(path).graph.initializer}


def test_exported_model_is_kept_without_weights_and_given_back_whole(tmp_path: Path) -> None:
    """torch.onnx.export(dynamo=True) returns a program with all weights; the kept file is the model without weights."""
    with recording(tmp_path):
        program = torch.onnx.export(Net(), (torch.ones(2, 8),), dynamo=True, verbose=False)
    assert kept(tmp_path) == ["001-exported.onnx"]
    whole = program.model_proto
    assert len(whole.graph.initializer[0].raw_data) == 256
    recorded = read(tmp_path / "001-exported.onnx")
    assert [(entry.key, entry.value) for entry in recorded.metadata_props] == [("hookpatch.patches", "")]
    recorded.ClearField("metadata_props")
    assert recorded.graph.node == whole.graph.node
    assert recorded.graph.input == whole.graph.input
    assert recorded.graph.initializer == pruned(whole).graph.initializer
    assert has_data(tmp_path / "001-exported.onnx") == {"linear.weight": False, "linear.bias": True}  # 8 elements


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("is_file", [False, True])
def test_torchscript_exporter_is_kept_too(tmp_path: Path, by_name: bool, is_file: bool) -> None:
    """With dynamo=False the exporter returns no model; the recorder reads the target, a file or a buffer."""
    target: Any = str(tmp_path / "mine.onnx") if is_file else io.BytesIO()
    with recording(tmp_path / "kept"):
        words = {"f": target} if by_name else {}
        torch.onnx.export(Net(), (torch.ones(2, 8),), *(() if by_name else (target,)), **words, dynamo=False)
    assert kept(tmp_path / "kept") == ["001-exported.onnx"]
    recorded = read(tmp_path / "kept" / "001-exported.onnx")
    whole = onnx.load(target) if is_file else onnx.load_from_string(target.getvalue())
    assert recorded.graph == pruned(whole).graph


@pytest.mark.parametrize("is_file", [False, True])
def test_simplified_model_is_kept_before_and_after(tmp_path: Path, is_file: bool) -> None:
    """onnxsim.simplify takes a model or a file name, and the program gets the simplified model with all weights."""
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["a"]), onnx.helper.make_node("Identity", ["a"], ["y"])]
    whole = model(nodes, [weight("w", 8, 8)])
    onnx.save(whole, tmp_path / "m.onnx")
    with recording(tmp_path / "kept"):
        simplified, agrees = onnxsim.simplify(str(tmp_path / "m.onnx") if is_file else whole)
    assert agrees
    assert kept(tmp_path / "kept") == ["001-before-simplify.onnx", "002-simplified.onnx"]
    first, second = (read(tmp_path / "kept" / name) for name in kept(tmp_path / "kept"))
    assert first.graph == pruned(whole).graph
    assert second.graph == pruned(simplified).graph
    assert len(second.graph.node) == 1
    assert len(simplified.graph.initializer[0].raw_data) == 256


def test_models_know_which_patches_were_called_until_then(tmp_path: Path) -> None:
    """A kept model lists the patches called so far: none before simplify, fuse_qkv_off after; never the recorder."""
    with recording(tmp_path, "fuse_qkv_off"):
        onnxsim.simplify(norms(1, as_one=True))
    models = [onnx.load(path) for path in sorted(tmp_path.glob("*"))]
    noted = [{entry.key: entry.value for entry in model.metadata_props}["hookpatch.patches"] for model in models]
    assert noted == ["", "fuse_qkv_off"]


def test_name_imported_before_is_recorded_too_and_nothing_is_left(tmp_path: Path) -> None:
    """The recorder sees a `simplify` that was imported before the block; after the block no model is kept."""
    from onnxsim import simplify

    with recording(tmp_path):
        simplify(norms(1, as_one=True))
    simplify(norms(1, as_one=True))
    assert kept(tmp_path) == ["001-before-simplify.onnx", "002-simplified.onnx"]


def test_error_of_the_program_is_the_programs(tmp_path: Path) -> None:
    """If simplify raises, the program gets the error, and the input model is kept: a patch may prevent the crash."""
    with recording(tmp_path), pytest.raises(RuntimeError, match="no_such_input"):
        onnxsim.simplify(norms(1, as_one=True), overwrite_input_shapes={"no_such_input": [1, 8]})
    assert kept(tmp_path) == ["001-before-simplify.onnx"]


def test_model_that_cannot_be_kept_is_a_line_and_the_program_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the folder is a file, each model causes a warning line on stderr, and the program goes on."""
    (tmp_path / "kept").write_text("")
    with recording(tmp_path / "kept"):
        simplified, _ = onnxsim.simplify(norms(1, as_one=True))
    assert len(simplified.graph.node) == 2
    lines = capsys.readouterr().err.splitlines()
    start = f"in {tmp_path / 'kept'}: FileExistsError: [Errno 17] File exists: '{tmp_path / 'kept'}'"
    assert [line for line in lines if "was not kept" in line] == [
        f"hookpatch: warning: a model ({kind}) was not kept {start}" for kind in ("before-simplify", "simplified")
    ]


def test_recorder_imports_none_of_what_it_records() -> None:
    """The recorder is loaded when the interpreter starts, and imports none of the recorded libraries."""
    program = (
        "import sys, hookpatch\n"
        "with hookpatch.active('onnx', options={'onnx': {'folder': 'x'}}):\n"
        "    print([m for m in ('onnx', 'onnxsim', 'torch', 'numpy', 'rich', 'typer') if m in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"


def test_recorder_needs_a_folder() -> None:
    """A recorder without the option `folder` is refused."""
    with pytest.raises(hookpatch.errors.OptionsError) as caught:
        hookpatch.active("onnx")
    assert str(caught.value) == (
        "options of plugin 'onnx' (hookpatch-onnx 0.1.0): 'folder' must be given; it takes folder: str"
    )
