"""export_scan: the warnings that an unmodified program's exports print before they run."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hookpatch_export.errors import ExportScanError, ExportWarning

import hookpatch

pytestmark = pytest.mark.model

NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = True

    def forward(self, x):
        if self.flag == True:
            x = x + 1
        if x.shape[0] > 2:
            x = x + 1
        for row in range(x.shape[1]):  # hookpatch: ignore[shape]
            x = x + row
        return x
"""
VENDOR = """
import sys, warnings
import torch
from torch import jit
from torch.export import export as capture
from torch.jit import trace
from torch.onnx import export
from net import Net

warnings.simplefilter("ignore", DeprecationWarning)
warnings.simplefilter("ignore", FutureWarning)
warnings.simplefilter("ignore", torch.jit.TracerWarning)
x = torch.ones(4, 3)


def say(what):
    sys.stderr.flush()
    print(what, flush=True)


say("trace"); trace(Net().eval(), x); say("done")
say("script"); jit.script(Net().eval()); say("done")
say("export"); capture(mod=Net().eval(), args=(x,)); say("done")
say("onnx"); export(Net().eval(), (x,), verbose=False); say("done")
say("old onnx"); export(Net().eval(), (x,), "old.onnx", dynamo=False, verbose=False); say("done")
"""
LINE = 13  # of the branch on the shape
TRACE = "frozen: the branch of the example's sizes is taken for all"
INSTEAD = "decide outside of the model, or export one model for each branch; torch.cond keeps both"


def scan_output(call: str, became: str) -> str:
    return f"{call}: if (shape): {became}; instead: {INSTEAD}; in Net.forward"


def test_unmodified_vendor_is_told_before_each_export(tmp_path: Path) -> None:
    """All four export functions scan, also if imported early, and warn once of the findings relevant for the mode."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "vendor.py").write_text(VENDOR)
    env = {**os.environ, "HOOKPATCH_PLUGINS": "export_scan"}
    command = [sys.executable, "vendor.py"]
    process = subprocess.run(command, cwd=tmp_path, env=env, stdout=-1, stderr=-2, text=True, timeout=300)
    assert process.returncode == 0, process.stdout
    by_step: dict[str, list[str]] = {}
    step = ""
    for line in process.stdout.splitlines():
        if line in ("trace", "script", "export", "onnx", "old onnx"):
            step = line
            by_step[step] = []
        elif "ExportWarning" in line:
            by_step[step].append(line)
    place = f"{tmp_path}/net.py:{LINE}: ExportWarning: "
    silent = "frozen without a warning: the file is right for sizes of this branch alone"
    assert by_step == {
        "trace": [place + scan_output("torch.jit.trace", TRACE)],
        "script": [],
        "export": [
            place + scan_output("torch.export.export", "only sizes of this branch are allowed, without a warning")
        ],
        "onnx": [place + scan_output("torch.onnx.export", silent)],
        "old onnx": [place + scan_output("torch.onnx.export", TRACE)],
    }
    assert "  if x.shape[0] > 2:" in process.stdout.splitlines()


def test_told_to_fail_it_exports_nothing(tmp_path: Path) -> None:
    """With fail=true an error lists the findings with file, line and column, and no file is written."""
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "vendor.py").write_text(
        "import torch\nfrom torch.onnx import export\nfrom net import Net\n"
        "export(Net(), (torch.ones(4, 3),), 'net.onnx')\n"
    )
    options = json.dumps({"export_scan": {"fail": True}})
    env = {**os.environ, "HOOKPATCH_PLUGINS": "export_scan", "HOOKPATCH_OPTIONS": options}
    command = [sys.executable, "vendor.py"]
    process = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert process.returncode == 1
    start = process.stderr.index("hookpatch_export.errors.ExportScanError: ")
    silent = "frozen without a warning: the file is right for sizes of this branch alone"
    assert process.stderr[start:] == (
        "hookpatch_export.errors.ExportScanError: torch.onnx.export was not run: 1 line does not survive it; change "
        "it, write '# hookpatch: ignore' behind what may stay, or leave out fail=true of plugin 'export_scan'\n"
        f"  net.py:{LINE}:12: if (shape): {silent}; instead: {INSTEAD}; in Net.forward\n"
        "'hookpatch explain ExportScanError' prints the meaning and the remedy\n"
    )
    assert not (tmp_path / "net.onnx").exists()


@pytest.fixture
def net(make_module: Callable[[str, str], Any]) -> Any:
    """Return the class ``Net``."""
    return make_module("net", NET).Net


def warned(run: Callable[[], object], **options: object) -> list[warnings.WarningMessage]:
    """Return the plugin's warnings during a call."""
    with (
        warnings.catch_warnings(record=True) as caught,
        hookpatch.active("export_scan", options={"export_scan": options}),
    ):
        warnings.simplefilter("always")
        run()
    return [warning for warning in caught if issubclass(warning.category, ExportWarning)]


def test_level_chooses_what_is_told(net: Any) -> None:
    """The default level is shape. A warning is placed on the model's line and has the finding as an attribute."""
    x = torch.ones(4, 3)
    lines = {
        level: [warning.lineno for warning in warned(lambda: torch.jit.trace(net(), x), level=level)]
        for level in ("data", "shape", "config")
    }
    assert lines == {"data": [], "shape": [LINE], "config": [11, LINE]}
    [warning] = warned(lambda: torch.jit.trace(net(), x))
    assert warning.filename == sys.modules["net"].__file__
    assert isinstance(warning.message, ExportWarning)
    assert warning.message.finding is not None
    assert warning.message.finding.line == LINE


MASKED = """
import torch


class Net(torch.nn.Module):
    def forward(self, x, mask=None):
        if mask is not None:
            if mask.sum() > 0:
                x = x * mask
        return x
"""


def test_inputs_of_the_call_leave_out_branches(make_module: Callable[[str, str], Any]) -> None:
    """A branch for an argument that this export does not get is not warned of, however the inputs are given."""
    net = make_module("net", MASKED).Net().eval()
    x = torch.ones(4, 3)
    without = [
        lambda: torch.jit.trace(net, x),
        lambda: torch.jit.trace(net, example_kwarg_inputs={"x": x}),
        lambda: torch.export.export(net, (x,)),
        lambda: torch.export.export(mod=net, args=(), kwargs={"x": x}),
        lambda: torch.onnx.export(net, x, verbose=False),
        lambda: torch.onnx.export(net, (x, None), verbose=False),
    ]
    assert [[warning.lineno for warning in warned(capture)] for capture in without] == [[]] * len(without)
    mask = x.bool()
    with_mask = [
        lambda: torch.jit.trace(net, [x, mask]),
        lambda: torch.jit.trace(net, example_kwarg_inputs={"x": x, "mask": mask}),
        lambda: torch.onnx.export(net, (x,), io.BytesIO(), kwargs={"mask": mask}, dynamo=False),
        lambda: torch.onnx.export(net, (x, {"mask": mask}), io.BytesIO(), dynamo=False),
    ]
    assert [[warning.lineno for warning in warned(capture)] for capture in with_mask] == [[8]] * len(with_mask)


def test_failing_on_a_value_leaves_shapes_alone(net: Any) -> None:
    """Findings below the level raise no error. An error for findings at the level has the findings as an attribute."""
    x = torch.ones(4, 3)
    assert warned(lambda: torch.jit.trace(net(), x), level="data", fail=True) == []
    with pytest.raises(ExportScanError) as raised:
        warned(lambda: torch.jit.trace(net(), x), fail=True)
    assert [finding.line for finding in raised.value.findings] == [LINE]


def test_what_was_captured_before_is_said_to_be_unreadable(net: Any) -> None:
    """A captured model gives a warning at the caller's line. A compiled module is read as the original module."""
    x = (torch.ones(4, 3),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced, program = torch.jit.trace(net(), x), torch.export.export(net(), x)
    before = "the model was captured before, as {}: its source cannot be read; give the module itself"
    [script] = warned(lambda: torch.jit.trace(traced, x))
    assert str(script.message) == f"torch.jit.trace: {before.format('a TopLevelTracedModule')}"
    assert script.filename == __file__
    [exported] = warned(lambda: torch.onnx.export(program, verbose=False))
    assert str(exported.message) == f"torch.onnx.export: {before.format('an ExportedProgram')}"
    [graph] = warned(lambda: torch.export.export(program.module(), x))
    assert str(graph.message) == f"torch.export.export: {before.format('a GraphModule')}"
    [compiled] = warned(lambda: torch.export.export(torch.compile(net()), x))
    assert compiled.lineno == LINE


def test_function_is_not_scanned_and_said_so_by_trace(net: Any) -> None:
    """Tracing a function warns that no scan is made. Scripting a function does not warn: libraries script at import."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    [warning] = warned(lambda: torch.jit.trace(double, torch.ones(2)))
    assert str(warning.message) == ("torch.jit.trace: a plain function is not scanned; pass a module")
    assert warned(lambda: torch.jit.script(double)) == []
    assert [warning.lineno for warning in warned(lambda: torch.jit.trace(net().forward, torch.ones(4, 3)))] == [LINE]


def test_scan_that_fails_is_one_warning_and_no_harm() -> None:
    """An error in the scan is a warning, and the export runs."""

    class Shy(torch.nn.Module):
        """A module whose ``forward`` raises an error on the first access."""

        accesses = 0

        @property
        def forward(self) -> Any:
            Shy.accesses += 1
            if Shy.accesses == 1:
                raise OSError("not now")
            return torch.relu

    traced: list[Any] = []
    [warning] = warned(lambda: traced.append(torch.jit.trace(Shy(), torch.ones(2))))
    assert str(warning.message) == (
        "torch.jit.trace: the model could not be scanned: OSError: not now; it is exported all the same"
    )
    assert traced[0](torch.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]


def test_class_is_scripted_with_the_names_of_its_caller() -> None:
    """Torch counts frames to find a class's names in the caller. Our wrapper does not disturb the count."""
    local = torch.Tensor

    class Pair:
        def __init__(self, first: local) -> None:
            self.first = first

        def get(self) -> local:
            return self.first

    with hookpatch.active("export_scan"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Pair)  # an unknown type name is an error


def test_calls_are_as_before_when_it_ends(net: Any) -> None:
    """After the session ends, an export prints no warning."""
    assert len(warned(lambda: torch.jit.trace(net(), torch.ones(4, 3)))) == 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.jit.trace(net(), torch.ones(4, 3))
    assert [warning for warning in caught if issubclass(warning.category, ExportWarning)] == []


def test_what_could_not_be_read_is_said_once(make_module: Callable[[str, str], Any]) -> None:
    """A part of the model without source gives one warning at any level, because a branch may be hidden in the part."""
    source = NET.replace("import torch\n", "import torch\nexec('def one(x): return x')\nexec('def two(x): return x')\n")
    net = make_module("net", source.replace("        return x\n", "        return one(two(x))\n")).Net
    caught = warned(lambda: torch.jit.trace(net(), torch.ones(4, 3)), level="data")
    assert [
        str(warning.message).partition(": the scan could not read all of the model: ")[0] for warning in caught
    ] == ["torch.jit.trace"]
    assert str(caught[0].message).endswith(" (and 1 more); 'hookpatch scan' tells why")
    assert caught[0].filename == __file__
