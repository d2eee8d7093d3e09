"""The page holds the data of the comparison, in a single file without references to other files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx
import pytest
from hookpatch_onnx._compare.compare import Comparison, compare
from hookpatch_onnx._model.read import read
from hookpatch_onnx._picture.html_page import data_of, page_of
from onnx import TensorProto, helper
from picture_models import model, norms, weight


class Parsed(HTMLParser):
    """A page's tags, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.comments: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def data_in(page: str) -> dict[str, Any]:
    return dict(json.loads(Parsed(page).scripts[0]))


@pytest.fixture(scope="module")
def fused(gpt_neo: dict[str, Path]) -> Comparison:
    """The real simplification with and without fuse_qkv."""
    return compare(read(gpt_neo["kept"]), read(gpt_neo["fused"]), ("kept.onnx", "fused.onnx"))


def test_page_holds_what_was_compared(fused: Comparison) -> None:
    """The data in the page, read as a browser does, equal the data of the comparison; each node is listed once."""
    data = data_in(page_of(fused))
    assert data == json.loads(json.dumps(data_of(fused)))
    assert (data["before"], data["after"], data["ops"]) == (
        "kept.onnx",
        "fused.onnx",
        {"MatMul": [17, 13], "Split": [0, 2]},
    )
    (graph,) = data["graphs"]
    assert graph["counts"] == {
        "before": 66,
        "after": 64,
        "same": 60,
        "changed": 0,
        "lost": 6,
        "gained": 4,
        "renamed": 0,
    }
    assert Counter(node["state"] for node in graph["nodes"] if node["kind"] == "node") == {
        "same": 60,
        "lost": 6,
        "gained": 4,
    }
    assert [node["op"] for node in graph["nodes"] if node["kind"] != "node"] == ["input_ids", "linear_12"]
    for place in graph["places"]:
        ops = Counter((graph["nodes"][index]["op"], graph["nodes"][index]["state"]) for index in place["nodes"])
        assert ops == {("MatMul", "lost"): 3, ("MatMul", "gained"): 1, ("Split", "gained"): 1}


def test_node_has_its_attributes_shapes_and_notes(gpt_neo: dict[str, Path]) -> None:
    """A node of the real export has attributes, shapes and notes, with the node's place in the model."""
    exported = read(gpt_neo["exported"])
    (graph,) = data_of(compare(exported, exported, ("a", "b")))["graphs"]
    node = next(node for node in graph["nodes"] if node["op"] == "LayerNormalization")
    assert node["after"] is None  # as before
    details = node["before"]
    assert details["attributes"] == {"axis": "-1", "epsilon": "1e-05", "stash_type": "1"}
    assert details["outputs"] == [{"name": "layer_norm", "type": "float32[1, 8, 32]"}]
    assert [(entry["what"], entry["kind"]) for entry in details["inputs"]] == [
        ("float32[1, 8, 32]", "node"),
        ("float32[32]", "constant"),
        ("float32[32]", "constant"),
    ]
    assert "GPTNeoBlock" in details["notes"]["namespace"]
    assert "modeling_gpt_neo.py" in details["notes"]["pkg.torch.onnx.stack_trace"]


def folded(graph: dict[str, Any]) -> dict[str, set[str]]:
    """Return the successors of each box, with every fold as a single box."""
    keys = [f"f{node['fold']}" if node["fold"] is not None else f"n{node['id']}" for node in graph["nodes"]]
    successors: dict[str, set[str]] = {key: set() for key in keys}
    for start, end, *_ in graph["edges"]:
        if keys[start] != keys[end]:
            successors[keys[start]].add(keys[end])
    return successors


def has_circle(leads_to: dict[str, set[str]]) -> bool:
    remaining = {key: set(ends) for key, ends in leads_to.items()}
    while ends := [key for key, after in remaining.items() if not after]:
        for key in ends:
            del remaining[key]
        for after in remaining.values():
            after.difference_update(ends)
    return bool(remaining)


@pytest.mark.parametrize("pair", [("kept", "fused"), ("exported", "kept"), ("exported", "exported"), ("fused", "kept")])
def test_folds_hold_what_is_unchanged_and_make_no_circle(gpt_neo: dict[str, Path], pair: tuple[str, str]) -> None:
    """A fold is a connected run of unchanged nodes, not next to a change."""
    before, after = (read(gpt_neo[name]) for name in pair)
    (graph,) = data_of(compare(before, after, pair))["graphs"]
    nodes = graph["nodes"]
    members: dict[int, set[int]] = defaultdict(set)
    for node in nodes:
        if node["fold"] is not None:
            members[node["fold"]].add(node["id"])
            assert node["state"] == "same"
    for start, end, *_ in graph["edges"]:
        if nodes[start]["state"] != "same" or nodes[end]["state"] != "same":
            assert nodes[start]["fold"] is None
            assert nodes[end]["fold"] is None
    assert all(len(fold) >= 3 for fold in members.values())
    assert not has_circle(folded(graph))
    if pair[0] == pair[1]:
        assert [len(fold) for fold in members.values()] == [len(nodes) - 2]  # all but the input and the output
    else:
        assert 0 < sum(map(len, members.values())) < len(nodes)


def test_graphs_in_nodes_and_functions_have_pages_of_their_own() -> None:
    """The page lists each compared graph, the model's own graph first."""
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("my", "Act", ["a"], ["b"], body, [helper.make_opsetid("", 23)])
    proto = model([helper.make_node("Act", ["x"], ["y"], domain="my")], functions=[function])
    graphs = data_of(compare(proto, proto, ("a", "b")))["graphs"]
    assert [(graph["title"], graph["isEmpty"]) for graph in graphs] == [("", True), ("function my.Act", True)]


def test_patches_are_named_where_they_are_known() -> None:
    """The page names the patches called for the second model alone; a place names the plugin noted in the node."""
    before, after = norms(1, as_one=False), norms(1, as_one=True)
    before.metadata_props.add(key="hookpatch.patches", value="gelu_node")
    after.metadata_props.add(key="hookpatch.patches", value="gelu_node,rmsnorm_node")
    after.graph.node[1].metadata_props.add(key="hookpatch.plugin", value="rmsnorm_node")
    data = data_in(page_of(compare(before, after, ("a", "b"))))
    assert data["patches"] == ["rmsnorm_node"]
    (place,) = data["graphs"][0]["places"]
    assert (place["gained"], place["by"], place["label"]) == ("RMSNormalization", ["rmsnorm_node"], "y")


def test_ends_are_nodes_of_the_drawing() -> None:
    """A changed input or output is drawn as changed, an added input as gained; edges join the ends to the nodes."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    before, after = model([relu]), model([relu], shape=("batch", 9))
    after.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, ["n"]))
    (graph,) = data_of(compare(before, after, ("a", "b")))["graphs"]
    assert [(node["op"], node["state"], node["differences"]) for node in graph["nodes"]] == [
        ("x", "changed", ["float32[batch, 8] → float32[batch, 9]"]),
        ("mask", "gained", []),
        ("Relu", "changed", ["output: float32[batch, 8] → float32[batch, 9]"]),
        ("y", "changed", ["float32[batch, 8] → float32[batch, 9]"]),
    ]
    assert graph["edges"] == [[0, 2, "float32[batch, 8]", True, True], [2, 3, "float32[batch, 8]", True, True]]


def test_page_is_one_file_and_asks_for_nothing(fused: Comparison) -> None:
    """The page fetches no address: no tag loads a file, a policy forbids loading, and both licences are included."""
    page = Parsed(page_of(fused))
    assert not [tag for tag, attributes in page.tags if {"src", "href", "srcset", "data"} & attributes.keys()]
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    policies = [
        attributes["content"]
        for _, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"]
    licences = [comment for comment in page.comments if "Permission is hereby granted" in comment]
    assert [re.sub(r"\s+", " ", licence).strip()[:40] for licence in licences] == [
        "cytoscape Copyright (c) 2016-2026, The C",
        "dagre Copyright (c) 2012-2014 Chris Pett",
    ]


def test_names_in_a_model_are_text_in_the_page() -> None:
    """A name with HTML or a script in a model is plain text in the page."""
    bad = "</script><script>alert(1)</script><!--{script}{data}"
    proto = model(
        [helper.make_node("Relu", ["x"], [bad], name=bad), helper.make_node("Exp", [bad], ["y"])], [weight("w", 8)]
    )
    page = page_of(compare(proto, proto, (bad, "b")))
    assert page.count("alert(1)") == page.count("\\u003cscript>alert(1)") + page.count("&lt;script&gt;alert(1)")
    assert data_in(page)["graphs"][0]["nodes"][1]["before"]["name"] == bad
    assert len([tag for tag, _ in Parsed(page).tags if tag == "script"]) == 4


def test_command_writes_the_page(tmp_path: Path) -> None:
    """`-o` writes the page, and prints the path after the text; an unwritable path is an error."""
    for name, as_one in (("a.onnx", False), ("b.onnx", True)):
        onnx.save(norms(2, as_one), tmp_path / name)
    command = [sys.executable, "-m", "hookpatch", "onnx", "diff", "a.onnx", "b.onnx", "-o"]
    completed = subprocess.run([*command, "diff.html"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (completed.stderr, completed.returncode) == ("", 0)
    assert completed.stdout.endswith("drawn in diff.html\n")
    assert data_in((tmp_path / "diff.html").read_text(encoding="utf-8"))["ops"]["RMSNormalization"] == [0, 2]
    failed = subprocess.run([*command, "no/diff.html"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (failed.stderr, failed.returncode) == (
        "hookpatch: error: no/diff.html: cannot be written: No such file or directory "
        "[hookpatch explain PictureError]\n",
        78,
    )
