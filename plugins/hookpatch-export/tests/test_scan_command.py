"""`hookpatch scan`: output, files and exit status."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers  # noqa: F401 - the first import adds a finder to sys.meta_path
from click.testing import Result
from hookpatch_export import Kind, scan
from hookpatch_export._show.text import print_lines, report, width_of
from rich.console import Console
from typer.testing import CliRunner

from hookpatch.command import app
from hookpatch.errors import HookpatchError

pytestmark = pytest.mark.model
pytest.importorskip("accelerate")  # transformers imports it in a test, and it boto3, which adds finders

Write = Callable[[str, str], Path]

NET = """
import torch


class Gate(torch.nn.Module):
    def __init__(self, hard=False):
        super().__init__()
        self.hard = hard

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        if self.hard == True:
            x = x.round()
        if x.sum() > 0:
            x = x * x.max().item() + x.min().item()
        for row in range(x.shape[0]):
            x = x + x[row]
        for column in range(x.shape[1]):
            x = x + x[:, column : column + 1]
        return x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x)


net = Net()


def ready():
    print("loading weights")
    return net, torch.ones(2, 3)
"""


@pytest.fixture
def net(write_module: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write net.py in the current folder."""
    monkeypatch.chdir(folder)
    return write_module("net", NET)


def scanned(*words: str) -> Result:
    return CliRunner().invoke(app, ["scan", *words])


def refused(*words: str) -> str:
    """Return the message of the error that a scan ends with."""
    result = scanned(*words)
    assert isinstance(result.exception, HookpatchError), result.output
    return str(result.exception)


def test_text_of_a_log(net: Path) -> None:
    """The text groups findings by function, with carets under the source. Equal consequences are printed once."""
    result = scanned("net.py:net")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout == (
        "Net.forward → Gate.forward\n"
        "  net.py:15:12  data  if\n"
        "    if x.sum() > 0:\n"
        "       ^^^^^^^^^^^\n"
        "      trace    frozen: the branch that the example takes is taken for every input\n"
        "      script   compiled as control flow\n"
        "      export   fails: the outcome hangs on a tensor's values\n"
        "      onnx     fails with dynamo=True; frozen with dynamo=False\n"
        "      instead  torch.where computes both and chooses; torch.cond keeps both branches\n"
        "\n"
        "  net.py:16:21  data  .item()  2 times\n"
        "    x = x * x.max().item() + x.min().item()\n"
        "            ^^^^^^^^^^^^^^   ^^^^^^^^^^^^^^\n"
        "      trace    frozen: the example's number becomes a constant\n"
        "      script   compiled, .numpy() is not\n"
        "      export   an unknown number: a decision on the number fails\n"
        "      onnx     fails with dynamo=True if the code decides on the number; frozen with dynamo=False\n"
        "      instead  stay with tensors: a 0-d tensor computes as a number does\n"
        "\n"
        "  net.py:17:20  shape  for\n"
        "    for row in range(x.shape[0]):\n"
        "               ^^^^^^^^^^^^^^^^^\n"
        "  net.py:19:23  shape  for\n"
        "    for column in range(x.shape[1]):\n"
        "                  ^^^^^^^^^^^^^^^^^\n"
        "      trace    unrolled in silence: as many rounds as the example takes\n"
        "      script   compiled as a loop\n"
        "      export   unrolled: the size becomes a constant\n"
        "      onnx     unrolled in silence\n"
        "      instead  compute all rounds at once (a tensor operation over that dimension), or torch.scan\n"
        "\n"
        "net.py:net: 3 data, 2 shape; not shown: 1 config, 1 safe (--level safe)\n"
    )


LLAMA = """
import torch
from transformers import LlamaConfig, LlamaModel

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 100}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.llama = LlamaModel(LlamaConfig(num_hidden_layers=30, **SIZES))

    def forward(self, ids):
        if ids.shape[1] > 8:
            ids = ids[:, :8]
        if ids.sum() > 0:
            ids = ids + 1
        return self.llama(ids, use_cache=False).last_hidden_state


def make():
    return Net()
"""


def test_what_changes_the_answer_comes_first_and_libraries_are_folded(net: Path, write_module: Write) -> None:
    """A Llama of 30 layers fits one screen: the user's data, the user's shapes, and each line of libraries once."""
    write_module("llama_net", LLAMA)
    lines = scanned("llama_net.py:make").stdout.splitlines()
    assert len(lines) <= 50
    assert lines[0] == "Net.forward"
    of_user = [line for line in lines if line.startswith("  llama_net.py:")]
    assert [line.split()[1] for line in of_user] == ["data", "shape"]
    start = lines.index(
        "In libraries, each line of source once (--all: all calls that lead to the lines, and the consequences)"
    )
    assert start > lines.index(of_user[-1])
    places = [line.split()[0] for line in lines[start:] if line.startswith("    transformers/")]
    assert len(places) == len(set(places)) > 5
    assert not [line for line in lines if "site-packages" in line]
    kinds = [line.split()[0] for line in lines[start:] if line.startswith("  ") and line[2] != " "]
    assert kinds == sorted(kinds, key=("data", "shape", "not-read", "call").index)
    everything = scanned("llama_net.py:make", "--all").stdout.splitlines()
    assert len(everything) > 2 * len(lines)
    assert everything[-1] == lines[-1]


PLAIN = """
import functools

def plain(call):
    @functools.wraps(call)
    def run(*args):
        return call(*args)
    return run
"""


def test_function_behind_decorators_is_said_once_on_the_way(net: Path, write_module: Write) -> None:
    """Wrappers with the function's name are left out of the text's route. JSON has all of them."""
    twice = NET.replace("    def forward(self, x):", "    @plain\n    @plain\n    def forward(self, x):")
    write_module("wrapped", PLAIN + twice)
    assert scanned("wrapped.py:net").stdout.splitlines()[0] == "Net.forward → Gate.forward"
    route = json.loads(scanned("wrapped.py:net", "--json").stdout)["findings"][0]["route"]
    assert route == ["Net.forward", "Net.forward", "Net.forward", "Gate.forward"]


def test_level_chooses_what_is_shown(net: Path) -> None:
    """--level shows the findings of a kind and of worse kinds, and counts the others."""
    assert scanned("net.py:net", "--level", "data").stdout.splitlines()[-1] == (
        "net.py:net: 3 data; not shown: 2 shape, 1 config, 1 safe (--level safe)"
    )
    assert scanned("net.py:net", "--level", "safe").stdout.splitlines()[-1] == (
        "net.py:net: 3 data, 2 shape, 1 config, 1 safe"
    )


@pytest.mark.parametrize("width", [60, 100])
def test_text_of_a_terminal_fits(net: Path, make_module: Any, width: int) -> None:
    """No line is wider: words are folded under themselves, and carets stay under the source."""
    model = make_module("net", NET).net
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    print_lines(report(scan(model), Kind.CALL, 0, "net.py:net", width_of(console)), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # the file is the StringIO above
    assert max(map(len, lines)) <= width
    index = lines.index("    x = x * x.max().item() + x.min().item()")
    assert lines[index + 1] == "            ^^^^^^^^^^^^^^   ^^^^^^^^^^^^^^"
    folded = "      instead  torch.where computes both and chooses;"
    assert (folded in lines) == (width == 60)
    assert ("               torch.cond keeps both branches" in lines) == (width == 60)


def test_json_has_every_kind_and_nothing_else_on_stdout(net: Path) -> None:
    """With --json, stdout has only JSON with findings of all kinds. Prints of the model's module go to stderr."""
    result = scanned("net.py:ready", "--json")
    assert result.stderr == "loading weights\n"
    findings = json.loads(result.stdout)["findings"]
    assert list(json.loads(result.stdout)) == ["findings"]
    assert {finding["kind"] for finding in findings} == {"data", "shape", "config", "safe"}
    worst = next(finding for finding in findings if finding["line"] == 15)
    assert (worst["file"], worst["column"], worst["source"]) == (str(net), 12, "if x.sum() > 0:")
    assert worst["route"] == ["Net.forward", "Gate.forward"]
    assert set(worst["consequence"]) == {"trace", "script", "export", "onnx"}
    assert worst["instead"] == "torch.where computes both and chooses; torch.cond keeps both branches"
    assert {
        finding["kind"]
        for finding in json.loads(scanned("net.py:net", "--json", "--level", "shape").stdout)["findings"]
    } == {
        "data",
        "shape",
    }


@pytest.mark.parametrize(
    ("model", "fail_on", "status"),
    [
        ("net", "data", 1),
        ("net", "config", 1),
        ("only_shape", "data", 0),
        ("only_shape", "shape", 1),
        ("clean", "config", 0),
    ],
)
def test_status_tells_whether_something_so_bad_was_found(
    net: Path, write_module: Write, model: str, fail_on: str, status: int
) -> None:
    """At or above the kind; 0 without --fail-on whatever is found."""
    for name, value in (("only_shape", "1 if len(x) > 2 else 2"), ("clean", "1")):
        forward = f"    def forward(self, x):\n        return x + ({value})\n"
        write_module(name, f"import torch\nclass Net(torch.nn.Module):\n{forward}net = Net()\n")
    assert scanned(f"{model}.py:net", "--fail-on", fail_on).exit_code == status
    assert scanned(f"{model}.py:net").exit_code == 0


def test_what_can_be_named(net: Path, write_module: Write) -> None:
    """A class, an instance, a function, a name in a name; by file and by module; in a package with --root."""
    summary = "3 data, 2 shape"
    for word in ("net:net", "net.py:net", "net:ready", "net:Gate"):
        assert summary in scanned(word).stdout.splitlines()[-1], word
    write_module("inner.part", "from .other import WIDTH\n" + NET)
    write_module("inner.other", "WIDTH = 3\n")
    for word, root in (("inner/part.py:net", ()), ("inner/part.py:net", ("--root", ".")), ("inner.part:net", ())):
        assert summary in scanned(word, *root).stdout.splitlines()[-1], word


def test_inputs_of_a_function_leave_out_branches(folder: Path, write_module: Write) -> None:
    """With ``(module, inputs)`` the branches of other inputs are no findings of a trace or an export."""
    path = write_module(
        "masked",
        """
        import torch

        class Net(torch.nn.Module):
            def forward(self, x, mask=None):
                if mask is not None:
                    if mask.sum() > 0:
                        x = x * mask
                return x

        net = Net().eval()

        def plain():
            return net, torch.ones(2, 3)

        def masked():
            return net, (torch.ones(2, 3),), {"mask": torch.ones(2, 3)}
        """,
    )
    status = {name: scanned(f"{path}:{name}", "--fail-on", "data").exit_code for name in ("net", "plain", "masked")}
    assert status == {"net": 1, "plain": 0, "masked": 1}


def test_file_that_bears_the_name_of_a_module_is_itself(net: Path) -> None:
    """json.py beside the model is not Python's json."""
    net.rename(net.with_name("json.py"))
    assert scanned("json.py:net").stdout.splitlines()[0] == "Net.forward → Gate.forward"


HOW = "write package.module:Model or path/to/file.py:Model"
NO_MODULE = "no torch.nn.Module; name a module, its class, or a function that makes a module"
MISTAKES = {
    "net": f"net: names no model; {HOW}",
    "net.py": "net.py: names no model; write net.py:Model, with the name of a model in the file",
    "inner.net.Net": "inner.net.Net: names no model; write inner.net:Net",
    "gone.py:Net": f"gone.py:Net: there is no file gone.py; {HOW}",
    "gone.inner:Net": "gone.inner:Net: no module 'gone.inner' can be imported; "
    "name a file, or the folder it is in with --root",
    "net.py:Nets": "net.py:Nets: net has no 'Nets'; did you mean 'Net'?",
    "net.py:zzz": "net.py:zzz: net has no 'zzz'; it has Gate, Net",
    "net.py:torch": f"net.py:torch: is of type module, {NO_MODULE}",
    "bad.py:number": f"bad.py:number: is of type int, {NO_MODULE}",
    "bad.py:Plain": f"bad.py:Plain: is the class Plain, {NO_MODULE}",
    "bad.py:nothing": "bad.py:nothing: returned None; return a module, (module, inputs) or (module, inputs, keywords)",
    "bad.py:inputs": "bad.py:inputs: returned (Linear, int); "
    "the inputs are a tensor or a tuple, the keywords a dict of them by name",
    "bad.py:fails": "bad.py:fails: raised OSError: no weights ({folder}/bad.py:14); correct the function; the scan "
    "calls functions without arguments",
    "needs.py:Net": "needs.py:Net: cannot be imported: ModuleNotFoundError: No module named 'nowhere' "
    "({folder}/needs.py:1); install the missing package, or name its folder with --root",
    "quits.py:Net": "quits.py:Net: cannot be imported: SystemExit: 3 ({folder}/quits.py:1); correct the module until "
    "python can import it",
    "wrong.py:Net": "wrong.py:Net: cannot be imported: expected ':' ({folder}/wrong.py:1); correct the line",
}
BAD = """
import torch
number = 3
class Plain:
    pass
def nothing():
    pass
def inputs():
    return torch.nn.Linear(2, 2), 3



def fails():
    raise OSError("no weights\\nat all")
"""


@pytest.mark.parametrize("word", MISTAKES)
def test_mistake_is_one_line(net: Path, write_module: Write, word: str) -> None:
    """An error names the argument, the mistake and the remedy in one line."""
    write_module("bad", BAD)
    write_module("needs", "import nowhere\n")
    write_module("quits", "raise SystemExit(3)\n")
    write_module("wrong", "class Net\n")
    assert refused(word) == MISTAKES[word].format(folder=net.parent)


def test_mistake_in_an_option_is_one_line(net: Path, tmp_path: Path) -> None:
    """A wrong root, a file that cannot be written and a probe without inputs are each refused in one line."""
    assert (
        refused("net.py:net", "--root", "gone")
        == "net.py:net: net.py is not under --root gone; name a folder that contains the file"
    )
    assert refused("net:net", "--root", "gone") == "net:net: there is no folder gone; name one with --root"
    assert refused("net.py:net", "--sarif", "gone/x.sarif") == (
        "gone/x.sarif cannot be written: No such file or directory; name another file"
    )
    for word in ("net.py:Net", "net.py:net"):
        assert refused(word, "--probe") == (
            f"{word}: --probe needs inputs; name a function that returns (module, inputs)"
        )
    assert refused("net.py:net", "--budget", "5") == (
        "net.py:net: --budget is how long --probe may look for inputs; give --probe, too"
    )


def test_as_a_command_of_its_own(net: Path) -> None:
    """The exit status is 78 for a mistake, with one line on stderr, and 1 for findings."""

    def run(*words: str) -> tuple[str, str, int]:
        command = [sys.executable, "-m", "hookpatch", "scan", *words]
        process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=net.parent)
        return process.stdout, process.stderr, process.returncode

    message = "hookpatch: error: net.py:Nets: net has no 'Nets'; did you mean 'Net'? [hookpatch explain ModelError]\n"
    assert run("net.py:Nets") == ("", message, 78)
    out, error, status = run("net:net", "--json", "--fail-on", "shape")
    assert (len(json.loads(out)["findings"]), error, status) == (7, "", 1)
