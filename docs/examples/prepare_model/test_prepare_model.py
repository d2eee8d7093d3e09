"""The main job on a real model, on the installed wheels, each way in a fresh process: plain, patched, and back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest
from environments import Environment

pytestmark = pytest.mark.model

HERE = Path(__file__).parent
NAMES = "fuse_qkv_off,linear_printer"
PLAIN_LINE = "Linear transformer.h.0.attn.attention.k_proj: 64 -> 64"
PATCHED_LINE = "Linear transformer.h.0.attn.attention.k_proj: weight [64, 64], no bias"


def graph(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def linear_lines(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("Linear ")]


def is_plain(ops: Counter[str]) -> bool:
    return (ops["MatMul"], ops["Split"]) == (13, 2)


def is_patched(ops: Counter[str]) -> bool:
    return (ops["MatMul"], ops["Split"]) == (17, 0)


def test_without_plugins_the_projections_are_fused(installed_wheels: Environment, tmp_path: Path) -> None:
    """The problem: 2 layers give 13 MatMul and 2 Split, and the vendor prints its own lines."""
    done = installed_wheels.run("export.py", "--small", "--output", tmp_path / "m.onnx", cwd=HERE)
    assert done.returncode == 0, done.stderr
    assert is_plain(graph(tmp_path / "m.onnx"))
    lines = linear_lines(done.stdout)
    assert len(lines) == 13
    assert lines[0] == PLAIN_LINE


def test_unmodified_script_is_patched_from_the_environment(installed_wheels: Environment, tmp_path: Path) -> None:
    """The first way: 17 MatMul and no Split, every Linear line changed, and the report says what was applied."""
    reports = tmp_path / "reports"
    done = installed_wheels.run(
        "export.py",
        *("--small", "--output", tmp_path / "m.onnx"),
        cwd=HERE,
        HOOKPATCH_PLUGINS=NAMES,
        HOOKPATCH_REPORT=str(reports),
    )
    assert done.returncode == 0, done.stderr
    assert is_patched(graph(tmp_path / "m.onnx"))
    lines = linear_lines(done.stdout)
    assert len(lines) == 13
    assert lines[0] == PATCHED_LINE
    assert all(": weight [" in line for line in lines)
    (receipt,) = reports.iterdir()
    (process,) = json.loads(receipt.read_text())["processes"]
    asked = [patch for patch in process["patches"] if patch["plugin"] != "torch"]  # what hookpatch itself puts there
    assert [(patch["target"], patch["state"]) for patch in asked] == [
        ("onnxsim.onnx_simplifier:simplify", "applied"),
        ("third_party_api:PRINT_BY_MODULE_TYPE[torch.nn:Linear]", "applied"),
    ]


def test_unmodified_program_is_patched_by_the_command(installed_wheels: Environment, tmp_path: Path) -> None:
    """The second way; tests/command/test_run.py has modules and code, too."""
    command = [installed_wheels.python.parent / "hookpatch", "run", "-p", "fuse_qkv_off", "-p", "linear_printer"]
    done = installed_wheels.run(*command, "export.py", "--small", "--output", tmp_path / "m.onnx", cwd=HERE)
    assert done.returncode == 0, done.stderr
    assert is_patched(graph(tmp_path / "m.onnx"))
    assert linear_lines(done.stdout)[0] == PATCHED_LINE


PATCH_OBJECTS = """
import json, runpy, sys
sys.argv = ["block.py", "--small", "--output", sys.argv[1]]
runpy.run_path("block.py", run_name="__main__")  # by plugin names; then, in the same process, what follows
import hookpatch, onnxsim, third_party_api, torch
from block import prepare
from export import build_model
model = build_model(small=True)
simplify, printer = onnxsim.simplify, third_party_api.PRINT_BY_MODULE_TYPE[torch.nn.Linear]
class Short(printer):
    def print_module_info(self): print("Linear", "short")
patches = [
    hookpatch.inject("onnxsim:simplify", skipped_optimizers=["fuse_qkv"]),
    hookpatch.replace("third_party_api:PRINT_BY_MODULE_TYPE[torch.nn:Linear]", Short),
]
with hookpatch.active(*patches):
    inside = prepare(model)
    assert onnxsim.simplify is not simplify
after = prepare(model)
assert onnxsim.simplify is simplify
assert third_party_api.PRINT_BY_MODULE_TYPE[torch.nn.Linear] is printer
print(json.dumps([inside, after]))
"""


def test_blocks_are_patched_and_afterwards_everything_is_back(installed_wheels: Environment, tmp_path: Path) -> None:
    """The third way, by plugin names, then by Patch objects: afterwards the same call gives plain graph and lines."""
    done = installed_wheels.run("-c", PATCH_OBJECTS, tmp_path / "found.json", cwd=HERE)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert is_patched(Counter(found["inside"]["ops"]))
    assert is_plain(Counter(found["after"]["ops"]))
    assert found["inside"]["lines"][0] == PATCHED_LINE
    assert found["after"]["lines"][0] == PLAIN_LINE
    assert set(found["same"].values()) == {True}
    assert [patch["state"] for patch in found["report"]["processes"][0]["patches"]] == ["restored", "restored"]
    inside, after = json.loads(done.stdout.splitlines()[-1])
    assert is_patched(Counter(inside["ops"]))
    assert set(inside["lines"]) == {"Linear short"}
    assert is_plain(Counter(after["ops"]))
    assert after["lines"][0] == PLAIN_LINE


def test_the_example_knows_nothing_of_hookpatch() -> None:
    """The vendor's code and the user's script import it nowhere."""
    for name in ("third_party_api.py", "export.py"):
        code = (HERE / name).read_text()
        assert "import hookpatch" not in code
        assert "from hookpatch" not in code
