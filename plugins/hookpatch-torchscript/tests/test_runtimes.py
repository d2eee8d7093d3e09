"""`hookpatch runtimes`: each mode is compared with eager and measured, in a child process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx.parser
import onnxruntime
import pytest
import torch
import transformers
import typer
from click.testing import Result as Done
from hookpatch_torchscript._runtimes.command.command import runtimes_command
from hookpatch_torchscript._runtimes.command.process import ended
from hookpatch_torchscript._runtimes.jobs.job import MODES, Job, Refusal, Setting, Trial
from hookpatch_torchscript._runtimes.jobs.requirements import without_packages, without_provider, without_torchscript
from hookpatch_torchscript._runtimes.measure.factory import FactoryError, build
from hookpatch_torchscript._runtimes.measure.measure import reply
from hookpatch_torchscript._runtimes.measure.memory import Watch
from hookpatch_torchscript._runtimes.measure.onnxruntime import running
from hookpatch_torchscript._runtimes.measure.reason import reason
from hookpatch_torchscript.errors import RuntimesError
from hookpatch_torchscript.models import bert_base, gpt_neo_125m, resnet18
from typer.testing import CliRunner

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:torch.jit.TracerWarning"),
]

Write = Callable[[str, str], Path]

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


class Two(Net):
    def forward(self, x, scale):
        y = self.layers(x)
        return {"logits": y * scale, "positive": y > 0}


class Gate(Net):
    def forward(self, x):
        if torch.jit.is_tracing():
            x = x + 1
        return {"gated": self.layers(x)}


class Noise(Net):
    def forward(self, x):
        return x + torch.rand(1)


class Writes(Net):
    def forward(self, x):
        return self.layers(x.add_(1))


class Crash(Net):
    def forward(self, x):
        if torch.jit.is_tracing():
            import os, signal
            os.kill(os.getpid(), signal.SIGSEGV)
        return self.layers(x)


class Nothing(Net):
    def forward(self, x):
        return {"x": x, "rest": None}


class Refuses(Net):
    def forward(self, x):
        if torch.compiler.is_compiling():
            raise ValueError("not in a graph")
        return self.layers(x)


def two(batch):
    print("loading weights")
    return Two(), (torch.randn(batch, 8),), {"scale": torch.full((), 2.0)}


def made(cls):
    return lambda batch: (cls(), torch.randn(batch, 8))


net, gate, noise, crash, nothing, refuses, writes = map(made, (Net, Gate, Noise, Crash, Nothing, Refuses, Writes))


def example():
    return Net(), torch.ones(1, 8)


def alone(batch):
    return Net()


def fails(batch):
    raise KeyError("weights")
"""


@pytest.fixture
def nets(write_module: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write nets.py in the current folder."""
    monkeypatch.chdir(folder)
    return write_module("nets", NET)


def ran(*words: str) -> Done:
    app = typer.Typer()
    app.command()(runtimes_command)
    return CliRunner().invoke(app, words)


def refused(*words: str) -> str:
    """Return the message of the error that ends the command."""
    result = ran(*words)
    assert isinstance(result.exception, RuntimesError), result.output
    return str(result.exception)


def tried(factory: str, mode: str, device: str = "cpu", dtype: str = "float32") -> Trial | Refusal:
    """Return the outcome of a mode measured in the current process, and restore the number of threads."""
    threads = torch.get_num_threads()
    try:
        return reply(Job(f"nets:{factory}", mode, Setting(device, dtype, 2), 1, 0.001)).outcome
    finally:
        torch.set_num_threads(threads)


def test_every_mode_is_measured_and_agrees(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All modes are measured, with keywords too, as JSON and as a picture. JSON is free of the factory's prints."""
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes for a single kernel
    result = ran("nets.py:two", "--batch", "3", "--seconds", "0.02", "--threads", "1", "--json", "--plot", "two.svg")
    assert (result.stderr, result.exit_code) == ("", 0), result.output
    report = json.loads(result.stdout)
    assert list(report) == ["version", "factory", "method", "notes", "settings"]
    assert (report["version"], report["factory"], report["notes"]) == (1, "nets.py:two", [])
    assert report["method"] == {"seconds": 0.02, "repeat": 1, "warm_up": 3}
    (setting,) = report["settings"]
    assert {name: setting[name] for name in ("device", "dtype", "batch")} == {
        "device": "cpu",
        "dtype": "float32",
        "batch": 3,
    }
    assert (setting["machine"]["torch"], setting["machine"]["threads"]) == (torch.__version__, 1)
    assert [row["mode"] for row in setting["results"]] == list(MODES)
    eager = setting["results"][0]
    for row in setting["results"]:
        assert (row["status"], row["problem"]) == ("ok", None)
        assert row["preparation"] > row["median"] > 0
        assert row["samples_per_second"] == pytest.approx(3 / row["median"])
        assert row["speed_up"] == pytest.approx(eager["median"] / row["median"])
        assert row["blocks"] == 1 or row["quartiles"][0] <= row["median"] <= row["quartiles"][1]
        assert row["memory"]["preparing"] >= 0
        assert row["memory"]["running"] >= 0
        assert row["difference"]["relative"] <= row["difference"]["tolerance"]
        assert row["difference"]["output"] in ("logits", "positive")
    picture = Path("two.svg").read_text()
    assert all(f">{mode}<" in picture for mode in MODES)


def test_what_fails_does_not_keep_the_others(nets: Path) -> None:
    """A crash, an error and a missing device give a line each and status 1. Other modes are still measured."""
    words = ["--modes", "trace,script", "--device", "cuda,cpu", "--seconds", "0.01", "--threads", "1"]
    command = [sys.executable, "-m", "hookpatch", "runtimes", "nets:crash", *words]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 1, completed.stderr
    assert (
        completed.stderr
        == f"hookpatch: --device cuda: torch {torch.__version__} is built without CUDA; measured on cpu alone\n"
    )
    lines = completed.stdout.splitlines()
    assert lines[1] == "batch 1 · float32 · cpu"
    assert [line.split()[0] for line in lines if line.startswith("eager")] == ["eager", "eager"]  # table and bars
    assert "trace          failed  the process was ended by SIGSEGV" in lines
    assert "script         failed  Crash.forward: TorchScript has no imports in functions (nets.py:41)" in lines


def test_wrong_answer_has_no_figures(nets: Path) -> None:
    """A wrong answer is reported with the output and the distance from eager's answer, without any times."""
    trial = tried("gate", "trace")
    assert isinstance(trial, Trial)
    assert trial.difference is not None
    far, of = trial.difference.absolute, trial.difference.relative
    assert (trial.status, trial.times, trial.preparation, trial.running) == ("differs", (), None, None)
    assert trial.problem == (
        f"gated is {far:.2g} from eager's, {of:.2g} of its greatest magnitude; 1e-04 is allowed for float32"
    )


def test_model_that_draws_random_numbers_is_named(nets: Path) -> None:
    """A model with random answers is reported, since no mode can be compared with the model."""
    trial = tried("noise", "eager")
    assert isinstance(trial, Trial)
    assert trial.difference is not None
    apart = f"output: {trial.difference.absolute:.2g} apart"
    assert trial.problem == f"the model answers the same input in two ways ({apart}), and no mode can be compared"


def test_model_that_writes_to_its_input_is_compared_on_fresh_ones(nets: Path) -> None:
    """A model that writes to inputs gets fresh copies of the factory's inputs for each answer."""
    trial = tried("writes", "eager")
    assert isinstance(trial, Trial)
    assert (trial.status, trial.problem) == ("ok", None)


@pytest.mark.parametrize(
    ("factory", "mode", "problem"),
    [
        (
            "nothing",
            "trace",
            "RuntimeError: an output cannot be understood by the tracer, only outputs matching dict[Union[str, "
            "Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a dictionary output of a traced function",
        ),
        ("refuses", "export", "ValueError: not in a graph (nets.py:54)"),
    ],
)
def test_reason_is_torch_s_own_in_a_line(nets: Path, factory: str, mode: str, problem: str) -> None:
    """The reason is the first error of the chain, in one line, with the model's line."""
    trial = tried(factory, mode)
    assert isinstance(trial, Trial)
    assert (trial.status, trial.problem) == ("failed", problem)


def test_reason_of_onnxruntime() -> None:
    """The reason has onnxruntime's words, without error codes and terminal colours."""
    with pytest.raises(Exception, match="INVALID_PROTOBUF") as caught:
        onnxruntime.InferenceSession(b"no model")
    assert reason(caught.value).startswith("InvalidProtobuf: Failed to load model because protobuf parsing failed")
    assert reason(ValueError("\x1b[96mred\x1b[0m words")) == "ValueError: red words"


def test_onnxruntime_makes_new_outputs() -> None:
    """onnxruntime allocates new outputs as torch does: a kept answer is not overwritten, and the work is comparable."""
    text = '<ir_version: 10, opset_import: ["": 20]> twice (float[2] x) => (float[2] y) { y = Add(x, x) }'
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    call = running(session, [(session.get_inputs()[0], torch.tensor([1.0, 2.0]))], torch.device("cpu"))
    (first,) = call()
    (second,) = call()
    assert first.tolist() == second.tolist() == [2.0, 4.0]
    assert first.data_ptr() != second.data_ptr()


def test_half_is_measured_where_a_mode_has_it(nets: Path) -> None:
    """Parameters, inputs and the tolerance follow --dtype."""
    trial = tried("net", "script", dtype="bfloat16")
    assert isinstance(trial, Trial)
    assert trial.difference is not None
    assert (trial.status, trial.difference.tolerance) == ("ok", 5e-2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_device_that_is_not_there_is_an_error_alone(nets: Path) -> None:
    """A missing device is an error if no other device was requested."""
    assert refused("nets:net", "--device", "cuda", "--modes", "eager") == (
        f"--device cuda: torch {torch.__version__} is built without CUDA; run the same command on a machine with such "
        "a device, or with --device cpu"
    )


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("nets", "names no factory; write module:function or path/to/file.py:function"),
        ("netz:net", "no module 'netz' can be imported; write module:function or path/to/file.py:function"),
        ("netz.py:net", "there is no file netz.py; write module:function or path/to/file.py:function"),
        ("nets:nets", "nets has no 'nets'; did you mean 'net'?"),
        ("nets.py:zzz", "nets has no 'zzz'; write module:function or path/to/file.py:function"),
        ("nets:NET", "nets has no 'NET'; write module:function or path/to/file.py:function"),
        ("nets:Net", "is the class Net; name a function that takes a batch size and returns (model, inputs)"),
        ("nets:example", "example() cannot be called with a batch size alone; write def example(batch)"),
        ("nets:alone", "returned a Net; return (model, inputs) or (model, inputs, keywords)"),
        ("nets:fails", "called with 2 it raised KeyError: 'weights' (nets.py:79); correct the function"),
        (
            "broken:net",
            "cannot be imported: ZeroDivisionError: division by zero (broken.py:1); correct the module until python "
            "can import it",
        ),
        (
            "needs:net",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module' (needs.py:1); "
            "install what is missing",
        ),
    ],
)
def test_what_is_no_factory(nets: Path, write_module: Write, word: str, problem: str) -> None:
    """A wrong factory is refused, with the mistake and the remedy."""
    write_module("broken", "1 / 0")
    write_module("needs", "import no_such_module")
    with pytest.raises(FactoryError) as caught:
        build(word, 2)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--modes", "traced"], "--modes: no mode 'traced'; did you mean 'trace'? "
         "there are eager, trace, script, script+freeze, compile, export, onnxruntime"),
        (["--modes", ","], "--modes: is empty; leave the option out, or write words with commas: --modes A,B"),
        (["--device", "tpu"], "--device: no device 'tpu'; did you mean 'cpu'? there are cpu, cuda"),
        (["--dtype", "float23"], "--dtype: no type 'float23'; did you mean 'float32'? "
         "there are float32, bfloat16, float16"),
        (["--batch", "1,eight"], "--batch: 'eight' is no batch size; write whole numbers from 1, --batch 1,8"),
        (["--batch", "0"], "--batch: '0' is no batch size; write whole numbers from 1, --batch 1,8"),
        (["--plot", "a.jpg"], "--plot a.jpg: is no picture's name; end it with .svg or .png"),
        (["--plot", "no/a.svg"], "--plot no/a.svg: the folder no does not exist; make the folder first"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong option is refused before the model is built."""
    monkeypatch.chdir(tmp_path)
    assert refused("nowhere:net", *words) == problem


def test_python_without_torchscript() -> None:
    """TorchScript modes are left out from Python 3.14 on."""
    assert without_torchscript((3, 13)) is None
    assert without_torchscript((3, 14)) == "torch does not support torch.jit on Python 3.14"


def test_what_onnxruntime_lacks() -> None:
    """A missing package or provider is named, with the package to install."""
    assert without_packages(("json", "torch")) is None
    assert without_packages(("json", "no_such_onnx")) == (
        "no_such_onnx is not installed: pip install 'hookpatch-torchscript[onnxruntime]'"
    )
    assert without_provider("CPUExecutionProvider", "1.31.1", ["CPUExecutionProvider"]) is None
    assert without_provider("CUDAExecutionProvider", "1.31.1", ["CPUExecutionProvider"]) == (
        "onnxruntime 1.31.1 did not take CUDAExecutionProvider, it has CPUExecutionProvider: install onnxruntime-gpu"
    )


@pytest.mark.parametrize(
    ("status", "last", "problem"),
    [
        (-11, "", "the process was ended by SIGSEGV"),
        (-9, "loading", "the process was ended by SIGKILL: the memory may have run out"),
        (1, "MemoryError", "the process ended with status 1: MemoryError"),
        (0, "", "the process ended with status 0"),
    ],
)
def test_how_a_process_ended(status: int, last: str, problem: str) -> None:
    """A signal that ended a child process is reported by name."""
    assert ended(status, last) == problem


def test_peak_of_a_phase_is_its_own() -> None:
    """Memory taken and freed in a phase counts for the peak of the phase, not of the next phase."""
    watch = Watch("cpu", "eager")
    torch.ones(25_000_000)  # 100 MB, gone at once
    first, second = watch.phase(), watch.phase()
    assert first is not None
    assert first > 90e6
    assert second is not None
    assert second < first - 50e6


@pytest.mark.parametrize(
    ("factory", "kind", "parameters"),
    [
        (bert_base, transformers.BertModel, 109_482_240),
        (resnet18, torch.nn.Sequential, 11_689_512),
        (gpt_neo_125m, transformers.GPTNeoForCausalLM, 125_198_592),
    ],
)
def test_ready_factories_have_the_known_shapes(factory: Callable[[int], Any], kind: type, parameters: int) -> None:
    """The ready factories make models with the published number of parameters, and inputs of the batch."""
    with torch.device("meta"):
        model, inputs, *keywords = factory(3)
    assert isinstance(model, kind)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert {len(tensor) for tensor in (*inputs, *(keywords[0].values() if keywords else ()))} == {3}
