"""trace_guard: the warnings about a trace, the inputs tried, and an unchanged program."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hookpatch_torchscript import guard
from hookpatch_torchscript.errors import TraceGuardError, TraceGuardWarning
from torch import Tensor, nn
from torch.jit import trace as early

import hookpatch
from hookpatch.errors import OptionsError

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning"),
]

NETS = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] > 2:
            return x + 1
        return x * 2
"""

VENDOR = """
import random, sys, warnings
import numpy, torch
from torch.jit import trace
from nets import Net

warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)
torch.manual_seed(3), random.seed(1), numpy.random.seed(1)


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        print("called", x.shape[0], torch.is_grad_enabled(), self.training)
        return self.layers(x)


net = Net()
traced = trace(net, torch.full((4, 3), 5.0))
print(traced.graph, traced.code, traced(torch.ones(1, 3)))
whole = Whole()
x = torch.ones(4, 3)
traced = trace(whole, x, check_trace=False)
print(traced.inlined_graph, whole.calls, whole.training, x, *whole.state_dict().items())
with torch.no_grad():
    traced = trace(whole.eval(), torch.ones(4, 3))
print(traced.inlined_graph, traced(torch.ones(2, 3)), torch.is_grad_enabled())
print(torch.rand(3), random.random(), numpy.random.rand())
"""


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "vendor.py").write_text(VENDOR)
    return tmp_path / "vendor.py"


def run(script: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(script)]
    return subprocess.run(program, capture_output=True, text=True, cwd=script.parent, env={**os.environ, **variables})


def test_vendors_script_is_told_and_is_the_same(vendor: Path) -> None:
    """With the plugin a script prints the same numbers, graphs, state and random numbers. A full warning is added."""
    variables = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    plain = run(vendor, **variables)
    patched = run(vendor, **variables, HOOKPATCH_PLUGINS="trace_guard")

    assert (plain.returncode, plain.stderr) == (0, "")
    assert (patched.returncode, patched.stdout) == (0, plain.stdout)
    nets = vendor.with_name("nets.py")
    assert patched.stderr == (
        f"{vendor}:25: TraceGuardWarning: torch.jit.trace: the trace of Net ({nets}:5) disagrees with the original; "
        "16 inputs tried, the smallest input that differs:\n"
        f"  input    x: float32[1, 1]: batch 1, x.shape[1] = 1\n"
        f"  again    torch.manual_seed(0); x = torch.tensor([[5.0]], dtype=torch.float32)\n"
        f"  answers  eager 10.0, the trace 6.0 at [0, 0]\n"
        f"  line     {nets}:7: if x.shape[0] > 2:\n"
        f"  trace    frozen: the branch of the example's sizes is taken for all\n"
        f"  instead  decide outside of the model, or export one model for each branch; torch.cond keeps both\n"
        f"  traced = trace(net, torch.full((4, 3), 5.0))\n"
    )


def test_fail_ends_the_script_and_without_the_scan_too(vendor: Path) -> None:
    """With fail=true the script ends. Without hookpatch-export the error says to install the package for the line."""
    vendor.write_text("import sys; sys.modules['hookpatch_export'] = None\n" + vendor.read_text())
    failed = run(
        vendor,
        OMP_NUM_THREADS="1",
        HOOKPATCH_PLUGINS="trace_guard",
        HOOKPATCH_OPTIONS='{"trace_guard": {"fail": true}}',
    )

    assert (failed.returncode, failed.stdout) == (1, "")
    message = f"TraceGuardError: torch.jit.trace at {vendor}:26: the trace of Net ({vendor.with_name('nets.py')}:5) dis"
    assert message in failed.stderr
    assert failed.stderr.endswith(
        "  answers  eager 10.0, the trace 6.0 at [0, 0]\n"
        "  line     install hookpatch-export, and the line that decided is named\n"
        "  instead  torch.jit.script keeps branches and loops; or trace one for each case, and choose outside of the "
        "model\n"
        "  or leave out fail=true of plugin 'trace_guard'\n"
        "'hookpatch explain TraceGuardError' prints the meaning and the remedy\n"
    )


# --- comparison


def small(x: Tensor) -> Tensor:
    return x + 1 if x.shape[0] > 2 else x * 2


def guard_warnings(trace: Callable[[], Any], **options: Any) -> list[TraceGuardWarning]:
    """Return the plugin's warnings during a trace."""
    plugin_options = {"trace_guard": options}
    with hookpatch.active("trace_guard", options=plugin_options), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TraceGuardWarning)
        trace()
    return [warning.message for warning in caught if isinstance(warning.message, TraceGuardWarning)]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    def encode(self, x: Tensor, scale: Tensor) -> Tensor:
        return self.linear(x) * (scale if scale > 0 else -scale)


def test_each_method_of_trace_module_is_compared() -> None:
    """Each method of trace_module is compared, and named. A method with a true trace gives no warning."""
    example = {"forward": torch.ones(4, 3), "encode": (torch.ones(4, 3), torch.tensor(2.0))}

    (warning,) = guard_warnings(lambda: torch.jit.trace_module(Two(), example))

    assert warning.call == "torch.jit.trace_module"
    assert warning.verdict.name == "Two.encode"
    (only,) = warning.verdict.disagreements
    assert only.words == "scale negated, batch 1"
    assert only.lost is not None
    assert only.lost.place is not None
    assert only.lost.place.code == "return self.linear(x) * (scale if scale > 0 else -scale)"
    assert (warning.place.file, "trace_module(Two(), example)" in warning.place.code) == (__file__, True)


def test_names_of_arguments_and_what_lies_in_them() -> None:
    """Keywords, dicts and tuples are compared, also by an early imported trace. A bound forward can be traced."""

    def nested(pair: tuple[Tensor, dict[str, Tensor]], flag: Tensor) -> Tensor:
        first, by_name = pair
        return first + by_name["y"] if flag else first

    pair = torch.ones(2, 3), {"y": torch.ones(2, 3)}
    (warning,) = guard_warnings(lambda: early(nested, example_kwarg_inputs={"pair": pair, "flag": torch.tensor(True)}))
    assert warning.verdict.name == "nested"
    assert warning.verdict.disagreements[0].shapes == (
        "pair[0]: float32[1, 1]",
        "pair[1]['y']: float32[1, 1]",
        "flag: bool[]",
    )
    assert guard_warnings(lambda: early(Two().forward, torch.ones(2, 3))) == []
    assert guard_warnings(lambda: early(torch.relu, torch.ones(2, 3))) == []


class HoldsScripted(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return y + 1


def kept(x: Tensor) -> Tensor:
    if x.size(0) > 2:
        return x + 1
    return x * 2


def test_scripted_and_traced_in_each_other() -> None:
    """Scripted code keeps branches in a trace. Traced code has lost branches, in a scripted module, too."""
    assert guard_warnings(lambda: torch.jit.trace(HoldsScripted(torch.jit.script(Two())), torch.ones(4, 3))) == []
    assert guard_warnings(lambda: torch.jit.trace(HoldsScripted(torch.jit.script(kept)), torch.ones(4, 3))) == []

    def scripted_with_a_trace() -> None:
        model = torch.jit.script(HoldsScripted(torch.jit.trace(small, torch.full((4, 3), 5.0))))
        assert model(torch.full((1, 3), 5.0)).tolist() == [[7.0] * 3]  # and not 11, by the other branch

    (warning,) = guard_warnings(scripted_with_a_trace)
    assert (warning.verdict.name, warning.verdict.disagreements[0].words) == ("small", "batch 1, x.shape[1] = 1")
    inside = torch.jit.trace(small, torch.ones(4, 3))
    assert guard_warnings(lambda: torch.jit.trace(HoldsScripted(inside), torch.ones(4, 3))) == []  # agrees with inside
    assert guard_warnings(lambda: torch.jit.trace(inside, torch.ones(4, 3))) == []


def test_two_lines_are_two_disagreements() -> None:
    """Each deciding line gives one disagreement, on the smallest input found."""

    def both(x: Tensor) -> Tensor:
        if x.shape[0] > 2:
            x = x + 1
        if x.min() < 0:
            x = x * 2
        return x

    verdict = guard(torch.jit.trace(both, torch.ones(4, 3)), both, torch.ones(4, 3))
    lines = [
        disagreement.lost.place.code
        for disagreement in verdict.disagreements
        if disagreement.lost and disagreement.lost.place
    ]
    assert lines == ["if x.shape[0] > 2:", "if x.min() < 0:"]


def test_counter_is_told_as_what_it_is() -> None:
    """A model that counts calls answers the example otherwise the next time. No line is named."""

    class Counts(nn.Module):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.calls

    model = Counts()
    verdict = guard(torch.jit.trace(model, torch.ones(2), check_trace=False), model, torch.ones(2))
    assert str(verdict).partition("\n")[2] == (
        "  input    x: float32[2]: the example input\n"
        "  again    torch.manual_seed(0); x = torch.tensor([1.0, 1.0], dtype=torch.float32)\n"
        "  answers  eager 2.0, the trace 1.0 at [0]; 2 of 2 elements differ, by 1 at most\n"
        "  instead  state kept from call to call (a counter, a cache) is a constant in the trace: keep the state in "
        "a buffer"
    )
    assert model.calls == 1


def test_function_and_what_it_holds_are_as_before() -> None:
    """A module in a closure and a list among the globals stay unchanged: the runs use copies."""
    net, calls = nn.BatchNorm1d(3).requires_grad_(False), [0]

    def held(x: Tensor) -> Tensor:
        calls[0] += 1
        y: Tensor = net(x)
        return y

    traced = torch.jit.trace(held, torch.rand(4, 3), check_trace=False)
    before = net.running_mean.clone()
    versions = [tensor._version for tensor in (*net.parameters(), *net.buffers())]
    assert guard(traced, held, torch.rand(4, 3)).agrees
    assert calls == [1]
    assert torch.equal(net.running_mean, before)
    assert [tensor._version for tensor in (*net.parameters(), *net.buffers())] == versions


# --- options


def test_options() -> None:
    """Options set the number of inputs, the tolerance, and an error instead of a warning."""
    example = torch.ones(4, 3)
    tenth = torch.jit.trace(lambda x: x * 1.1, example)
    near: dict[str, float] = {"rtol": 0.2, "atol": 0.0}
    assert guard(tenth, lambda x: x, example, probes=5).tried == 5
    assert len(guard(tenth, lambda x: x, example).disagreements) == 1
    assert guard(tenth, lambda x: x, example, **near).agrees
    nearly = torch.jit.trace(lambda x: x * 1.0001, example)
    assert guard(nearly, lambda x: x, example).agrees
    assert not guard(nearly, lambda x: x, example, rtol=0.0, atol=0.0).agrees
    assert guard_warnings(lambda: torch.jit.trace(small, example), probes=1) == []  # the example alone
    with pytest.raises(TraceGuardError) as caught:
        guard_warnings(lambda: torch.jit.trace(small, example), fail=True)
    assert caught.value.verdicts[0].name == "small"
    assert caught.value.place.file == __file__


@pytest.mark.parametrize("options", [{"probes": "many"}, {"rtol": "near"}, {"seed": 1}])
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    """Wrong options are refused before torch is patched."""
    with pytest.raises(OptionsError, match="options of plugin 'trace_guard'"):
        guard_warnings(lambda: None, **options)
