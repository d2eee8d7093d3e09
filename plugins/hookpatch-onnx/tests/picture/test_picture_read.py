"""Models without weights are the same from a file and from a model in memory; other files are a clear error."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import onnx
import pytest
from hookpatch_onnx._model.read import parse, pruned, read
from hookpatch_onnx.errors import ModelFileError
from onnx import TensorProto, helper
from picture_models import model, norms, weight


def test_weights_are_left_out_and_all_else_is_there(gpt_neo: dict[str, Path]) -> None:
    """In a real file no tensor of more than 16 elements has data, and no other data is missing."""
    whole, light = onnx.load(gpt_neo["exported"]), read(gpt_neo["exported"])
    assert whole.ByteSize() - light.ByteSize() > 100_000
    for tensor in (*whole.graph.initializer, *light.graph.initializer):
        if tensor.dims and numpy_size(tensor) > 16:
            tensor.ClearField("raw_data")
    assert light == whole


def numpy_size(tensor: onnx.TensorProto) -> int:
    size = 1
    for dim in tensor.dims:
        size *= dim
    return size


def test_file_and_model_at_hand_give_the_same(gpt_neo: dict[str, Path]) -> None:
    """A file and a model in memory give the same model; the model in memory is unchanged."""
    whole = onnx.load(gpt_neo["fused"])
    before = whole.SerializeToString()
    assert pruned(whole) == read(gpt_neo["fused"])
    assert whole.SerializeToString() == before


@pytest.mark.parametrize("field", ["raw_data", "float_data", "int32_data", "int64_data", "double_data", "string_data"])
def test_every_form_of_data_is_left_out(field: str) -> None:
    """Tensors may hold their data in any of seven fields, in initializers, attributes, graphs in nodes, functions."""
    tensor = onnx.TensorProto(name="t", dims=[3, 7], data_type=TensorProto.FLOAT)
    if field == "raw_data":
        tensor.raw_data = b"1234" * 21
    else:
        getattr(tensor, field).extend([b"1" if field == "string_data" else 1] * 21)
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "i", [], [], [tensor])
    nodes = [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)]
    function = helper.make_function("my", "F", [], ["c"], inner.node, [])
    whole = model(nodes, [tensor], functions=[function])
    parsed = parse(memoryview(whole.SerializeToString()), "m")
    assert parsed == pruned(whole)
    text = str(parsed)
    assert field not in text
    assert text.count("dims: 7") == str(whole).count("dims: 7") == 6


def test_small_tensors_keep_their_data() -> None:
    """Shapes, axes and scalars are a part of the structure."""
    shapes = [helper.make_tensor("s", TensorProto.INT64, [16], range(16)), weight("t", 16), weight("u")]
    whole = model([helper.make_node("Reshape", ["x", "s"], ["y"])], shapes)
    assert parse(memoryview(whole.SerializeToString()), "m") == pruned(whole) == whole


def test_weights_in_another_file_need_not_be_there(tmp_path: Path) -> None:
    """External data is never looked for."""
    onnx.save(
        norms(1, as_one=True), tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    os.remove(tmp_path / "m.data")
    light = read(tmp_path / "m.onnx")
    assert [tuple(tensor.dims) for tensor in light.graph.initializer] == [(8, 8), (32,)]


def test_weights_are_not_read_from_a_huge_file(tmp_path: Path) -> None:
    """A file with a hole of 40 GB in place of the weight, larger than the memory, is read."""
    size = 40 * 2**30
    head = model([helper.make_node("MatMul", ["x", "w"], ["y"])]).SerializeToString()
    tensor = onnx.TensorProto(name="w", dims=[size // 4], data_type=TensorProto.FLOAT).SerializeToString()

    def field(number: int, length: int) -> bytes:
        encoded = bytearray([number << 3 | 2])
        while length > 127:
            encoded.append(length & 127 | 128)
            length >>= 7
        return bytes([*encoded, length])

    data = field(9, size)
    weights = tensor + data
    graph = field(5, len(weights) + size) + weights
    path = tmp_path / "huge.onnx"
    with open(path, "wb") as file:  # a model's fields may come in pieces: the graph's are joined
        file.write(head + field(7, len(graph) + size) + graph)
        file.truncate(file.tell() + size)
    light = read(path)
    assert [(initializer.name, list(initializer.dims)) for initializer in light.graph.initializer] == [
        ("w", [size // 4])
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty, not an ONNX model; did the export end with an error?"),
        (b"import torch\n", "is not an ONNX model: the file is text; give the binary .onnx file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
            "is not an ONNX model: it is a pointer of Git LFS; fetch the file itself with git lfs pull",
        ),
        (b"\x7fELF\x02\x01\x01\x00\x00", "is not an ONNX model: the file has no graph with an opset"),
        (b"\x08\x0a", "is not an ONNX model: the file has no graph with an opset"),
        (norms(1, as_one=True).SerializeToString()[:-3], "is not an ONNX model: the file has no graph with an opset"),
    ],
    ids=["empty", "text", "lfs", "binary", "no graph", "cut off"],
)
def test_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    """The error names the likely kind of the file."""
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        read(path)
    assert str(caught.value) == f"{path} {problem}"


def test_zip_folder_and_missing_file_are_refused(tmp_path: Path) -> None:
    """A zip file, a folder and a missing file are errors, too."""
    archive = tmp_path / "model.pt2"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("version", "3")
    for path, problem in (
        (tmp_path, "is a folder, not an ONNX model"),
        (tmp_path / "no.onnx", "cannot be read: No such file or directory"),
        (
            archive,
            "is not an ONNX model: the file is a zip file of torch.save or torch.export.save; export the model with "
            "torch.onnx.export",
        ),
    ):
        with pytest.raises(ModelFileError) as caught:
            read(path)
        assert str(caught.value) == f"{path} {problem}"


def test_weight_of_the_tests_is_one() -> None:
    """The weight of the tests is large enough to be left out."""
    assert not pruned(model([], [weight("w", 8, 8)])).graph.initializer[0].raw_data
