"""Applied remedies: each is applied to a copy, scripted and compared, and the printed diff works in the file."""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hookpatch_torchscript import explain

pytestmark = [
    pytest.mark.model,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is (deprecated|not supported):DeprecationWarning"),
]
HEAD = """
import enum
import operator
import sys
from contextlib import nullcontext
from typing import List, Optional

import torch
from torch import Tensor, nn


class Mode(enum.Enum):
    A = 1
    B = 2

    def scale(self):
        return self.value * 2


class Config:
    def __init__(self, size=3):
        self.size = size


def times(x, n):
    return x * n


"""
# By name: a model that torch cannot script, an input, and the lines removed and added by the remedy.
MODELS: dict[str, tuple[str, tuple[Any, ...], list[str]]] = {
    "a module dict by a variable": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})

    def forward(self, x, name: str):
        return self.parts[name](x)
""",
        (torch.ones(1, 2), "b"),
        [
            "-        return self.parts[name](x)",
            "+        found: Optional[Tensor] = None",
            "+        for key, layer in self.parts.items():",
            "+            if key == name:",
            "+                found = layer(x)",
            "+        assert found is not None",
            "+        return found",
        ],
    ),
    "an optional item of a dict": (
        """
class Net(nn.Module):
    def forward(self, x, parts: dict[str, Optional[Tensor]]):
        return x + parts["a"]
""",
        (torch.ones(1, 2), {"a": torch.ones(1, 2)}),
        [
            '-        return x + parts["a"]',
            "+        item = parts['a']",
            "+        assert item is not None",
            "+        return x + item",
        ],
    ),
    "optional elements of a list": (
        """
class Net(nn.Module):
    def forward(self, x, masks: List[Optional[Tensor]]):
        for mask in masks:
            x = x * mask
        return x
""",
        (torch.ones(1, 2), [torch.ones(1, 2)]),
        ["+            assert mask is not None"],
    ),
    "a module list by a variable": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x, i: int):
        return self.layers[i](x) + 1
""",
        (torch.ones(1, 2), -1),
        [
            "-        return self.layers[i](x) + 1",
            "+        found: Optional[Tensor] = None",
            "+        for key, layer in enumerate(self.layers):",
            "+            if key == i or key - len(self.layers) == i:",
            "+                found = layer(x)",
            "+        assert found is not None",
            "+        return found + 1",
        ],
    ),
    "a method of an optional argument": (
        """
class Net(nn.Module):
    def forward(self, x, mask: Optional[Tensor] = None):
        return x * mask.sigmoid()
""",
        (torch.ones(2), torch.zeros(2)),
        ["+        assert mask is not None"],
    ),
    "an optional number": (
        """
class Net(nn.Module):
    def forward(self, x, n: Optional[int] = None):
        return x * n
""",
        (torch.ones(2), 3),
        ["+        assert n is not None"],
    ),
    "an optional attribute": (
        """
class Net(nn.Module):
    scale: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.scale = torch.ones(2)

    def forward(self, x):
        return x * self.scale
""",
        (torch.ones(2),),
        [
            "-        return x * self.scale",
            "+        scale = self.scale",
            "+        assert scale is not None",
            "+        return x * scale",
        ],
    ),
    "a dict without an annotation": (
        """
class Net(nn.Module):
    def forward(self, d):
        return d["x"] * 2
""",
        ({"x": torch.ones(2)},),
        [
            "+from typing import Dict",
            "-    def forward(self, d):",
            "+    def forward(self, d: Dict[str, Tensor]):",
        ],
    ),
    "type(x) is list": (
        """
class Net(nn.Module):
    def forward(self, x):
        if type(x) is list:
            return x[0]
        return x
""",
        (torch.ones(2),),
        ["-        if type(x) is list:", "+        if isinstance(x, list):"],
    ),
    "a comprehension with a filter": (
        """
class Net(nn.Module):
    def forward(self, x):
        even = [i for i in range(5) if i % 2 == 0]
        return x * len(even)
""",
        (torch.ones(2),),
        [
            "-        even = [i for i in range(5) if i % 2 == 0]",
            "+        even: List[int] = []",
            "+        for i in range(5):",
            "+            if i % 2 == 0:",
            "+                even.append(i)",
        ],
    ),
    "a method of an enum": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.B

    def forward(self, x):
        return x * self.mode.scale()
""",
        (torch.ones(2),),
        [
            "+        self.mode_scale = self.mode.scale()",
            "-        return x * self.mode.scale()",
            "+        return x * self.mode_scale",
        ],
    ),
    "nullcontext": (
        """
class Net(nn.Module):
    def forward(self, x):
        with nullcontext():
            y = x + 1
            # kept
            return y
""",
        (torch.ones(2),),
        [
            "-        with nullcontext():",
            "-            y = x + 1",
            "-            # kept",
            "-            return y",
            "+        y = x + 1",
            "+        # kept",
            "+        return y",
        ],
    ),
    "append of an int to a list of no type": (
        """
class Net(nn.Module):
    def forward(self, x):
        out = []
        out.append(x.shape[0])
        return x * len(out)
""",
        (torch.ones(2),),
        ["-        out = []", "+        out: List[int] = []"],
    ),
    "append of the wrong type": (
        """
class Net(nn.Module):
    def forward(self, x):
        out: List[int] = []
        out.append(0.5)
        return x * out[0]
""",
        (torch.ones(2),),
        ["-        out: List[int] = []", "+        out: List[float] = []"],
    ),
    "print to a file": (
        """
class Net(nn.Module):
    def forward(self, x):
        print("shape", file=sys.stderr)
        return x
""",
        (torch.ones(2),),
        [
            '-        print("shape", file=sys.stderr)',
            "+        if not torch.jit.is_scripting():",
            "+            print('shape', file=sys.stderr)",
        ],
    ),
    "an empty list of tensors, of which the length alone is read": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    @torch.jit.ignore
    def keep(self, x):
        self.seen.append(x.detach())

    def forward(self, x):
        return x + len(self.seen)
""",
        (torch.ones(2),),
        ["+    seen: List[Tensor]", "+"],
    ),
    "an empty list as an attribute": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        return x + len(self.seen)
""",
        (torch.ones(2),),
        ["+    seen: List[int]", "+"],
    ),
    "None as an attribute": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        self.last = x
        return x
""",
        (torch.ones(2),),
        ["+    last: Optional[Tensor]", "+"],
    ),
    "a setting": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()

    def forward(self, x):
        return x * self.config.size + self.config.size
""",
        (torch.ones(2),),
        [
            "+        self.config_size = self.config.size",
            "-        return x * self.config.size + self.config.size",
            "+        return x * self.config_size + self.config_size",
        ],
    ),
    "a number to a helper": (
        """
class Net(nn.Module):
    def forward(self, x):
        return times(x, 3)
""",
        (torch.ones(2),),
        ["-def times(x, n):", "+def times(x, n: int):"],
    ),
    "a number to a method": (
        """
class Net(nn.Module):
    def forward(self, x):
        return self.add(x, 3)

    def add(self, x, n):
        return x + n
""",
        (torch.ones(2),),
        ["-    def add(self, x, n):", "+    def add(self, x, n: int):"],
    ),
    ":= in a submodule": (
        """
class Inner(nn.Module):
    def forward(self, x):
        if (n := x.shape[0]) > 1:
            return x * n
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), Inner())

    def forward(self, x):
        return self.layers(x)
""",
        (torch.ones(2, 3),),
        ["-        if (n := x.shape[0]) > 1:", "+        n = x.shape[0]", "+        if (n) > 1:"],
    ),
    "sum of a list of tensors": (
        """
class Net(nn.Module):
    def forward(self, x):
        return sum([x, x + 1])
""",
        (torch.ones(2),),
        ["-        return sum([x, x + 1])", "+        return torch.stack([x, x + 1]).sum(0)"],
    ),
    "a list of any length assigned with a star": (
        """
class Net(nn.Module):
    def forward(self, x):
        first, *others, last = x.unbind(0)
        return first + last * len(others)
""",
        (torch.ones(3, 2),),
        [
            "-        first, *others, last = x.unbind(0)",
            "+        items = x.unbind(0)",
            "+        first = items[0]",
            "+        others = items[1:-1]",
            "+        last = items[-1]",
        ],
    ),
    "tuple of a list": (
        """
class Net(nn.Module):
    def forward(self, x):
        rows = [x, x + 1]
        return torch.cat(tuple(rows))
""",
        (torch.ones(2, 2),),
        ["-        return torch.cat(tuple(rows))", "+        return torch.cat(rows)"],
    ),
    "a function's argument that is None by default": (
        """
def total(x, dims=None):
    return x.sum() if dims is None else x.sum(dims)


class Net(nn.Module):
    def forward(self, x):
        return total(x, dims=[0]) + total(x)
""",
        (torch.ones(2, 2),),
        ["-def total(x, dims=None):", "+def total(x, dims: Optional[List[int]]=None):"],
    ),
    "an int or a float": (
        """
class Net(nn.Module):
    def forward(self, x):
        return x * (x.shape[0] if x.shape[1] > 2 else 0.5)
""",
        (torch.ones(2, 2),),
        [
            "-        return x * (x.shape[0] if x.shape[1] > 2 else 0.5)",
            "+        return x * (float(x.shape[0]) if x.shape[1] > 2 else 0.5)",
        ],
    ),
    "a variable that begins as None": (
        """
class Net(nn.Module):
    def forward(self, x):
        total = None
        for row in x:
            total = row if total is None else total + row
        return total * 2
""",
        (torch.ones(2, 2),),
        [
            "-        total = None",
            "+        total: Optional[Tensor] = None",
            "+        assert total is not None",
        ],
    ),
    "modules zipped with a list": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, xs: List[Tensor]):
        out = xs[0]
        for layer, x in zip(self.layers, xs):
            out = out + layer(x)
        return out
""",
        ([torch.ones(1, 2), torch.zeros(1, 2)],),
        [
            "-        for layer, x in zip(self.layers, xs):",
            "+        for at, layer in enumerate(self.layers):",
            "+            x = xs[at]",
        ],
    ),
}


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Return a function that writes a file and imports the file under a unique name."""
    numbers = iter(range(99))

    def load(text: str) -> Any:
        path = tmp_path / f"proved_{next(numbers)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"hookpatch_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        module_names.append(spec.name)
        spec.loader.exec_module(module)
        return module

    module_names: list[str] = []
    yield load
    for name in module_names:
        del sys.modules[name]


def _answer(called: Any, inputs: tuple[Any, ...]) -> torch.Tensor:
    return called(*inputs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("is_given", [False, True], ids=["guessed", "given"])
def test_a_remedy_that_is_printed_works(name: str, is_given: bool, load: Any, tmp_path: Path) -> None:
    """The diff is as expected. A file patched with the diff by ``patch`` can be scripted, and answers as before."""
    source, inputs, lines = MODELS[name]
    module = load(HEAD + source)
    torch.manual_seed(0)
    net = module.Net()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    explanation = explain(net, inputs=inputs if is_given else None)
    assert explanation.error is not None
    assert explanation.failure.proof is not None, explanation.error.__notes__
    diff = explanation.failure.proof.diff
    assert [line for line in diff.splitlines()[2:] if line[:1] in "+-"] == lines
    assert "  works   this diff: a changed copy was scripted, and answers as" in explanation.error.__notes__[0]
    assert type(net) is module.Net
    assert net.state_dict().keys() == before.keys()
    copy = tmp_path / "patched.py"
    shutil.copy(module.__file__, copy)
    tool = ["git", "apply", "--unidiff-zero", "-p0", "--unsafe-paths", f"--directory={tmp_path}"]
    text = "\n".join(["--- patched.py", "+++ patched.py", *diff.splitlines()[2:], ""])
    subprocess.run(tool, input=text, text=True, check=True, cwd=tmp_path)
    torch.manual_seed(0)
    patched = load(copy.read_text()).Net()
    scripted = explain(patched)
    assert scripted.error is None, scripted.error
    torch.testing.assert_close(_answer(scripted.scripted, inputs), _answer(net, inputs))


UNPROVEN = {
    "answers that differ": (
        # The call changes the answer, so leaving the call out of TorchScript is no remedy.
        """
class Net(nn.Module):
    def forward(self, x):
        x = x.clone()
        operator.setitem(x, 0, 7.0)
        return x
""",
    ),
    ":= that runs only sometimes": (
        # In the line before, x.shape[1] would raise for a tensor of one element and one axis.
        """
class Net(nn.Module):
    def forward(self, x):
        if (n := x.shape[0]) > 1 and (m := x.shape[1]) > 1:
            return x * n * m
        return x
""",
    ),
    "a value that is needed only sometimes": (
        """
class Net(nn.Module):
    def forward(self, x, first: bool, second: bool, third: bool, mask: Optional[Tensor]):
        return x + mask if first or second or third else x
""",
    ),
    "no input that the model takes": (
        """
class Net(nn.Module):
    def forward(self, x):
        assert x.shape == (5, 7, 3)
        with nullcontext():
            return x
""",
    ),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_what_did_not_pass_is_to_try(name: str, load: Any) -> None:
    explanation = explain(load(HEAD + UNPROVEN[name][0]).Net())
    assert explanation.failure.proof is None
    assert "  try     " in explanation.error.__notes__[0]
    assert "  works   " not in explanation.error.__notes__[0]


def test_given_inputs_prove_what_guessed_ones_could_not(load: Any) -> None:
    net = load(HEAD + UNPROVEN["no input that the model takes"][0]).Net()
    assert explain(net, inputs=(torch.ones(5, 7, 3),)).failure.proof.inputs == 1


def test_without_prove_nothing_runs(load: Any) -> None:
    module = load(HEAD + MODELS["print to a file"][0] + "\nRUNS = []\nNet.forward.__globals__['print'] = RUNS.append\n")
    explanation = explain(module.Net(), prove=False)
    assert explanation.failure.proof is None
    assert module.RUNS == []


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def inner(self: Any, x: torch.Tensor) -> Any:
        return 2 * function(self, x)

    return inner


class Doubled(torch.nn.Module):
    @doubled
    def forward(self, x):
        return x + 1


class WithoutGradient(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x):
        return x + 1


class CallsDoubled(torch.nn.Module):
    def forward(self, x):
        return self.more(x)

    @doubled
    def more(self, x):
        return x + 1


@pytest.mark.parametrize(
    ("cls", "function", "decorator"),
    [
        (Doubled, "Doubled.forward", "doubled"),
        (WithoutGradient, "WithoutGradient.forward", "context_decorator"),
        (CallsDoubled, "CallsDoubled.more", "doubled"),
    ],
)
def test_a_decorator_that_scripting_leaves_out_is_said(cls: Any, function: str, decorator: str) -> None:
    explanation = explain(cls())
    (dropped,) = explanation.dropped
    assert dropped.startswith(f"{function}: the result lacks its decorator {decorator} (")
    assert f"  dropped {function}: the result lacks its decorator" in str(explanation)
    assert explanation.to_dict()["dropped"] == [dropped]
    if decorator == "doubled":
        assert not torch.equal(explanation.scripted(torch.ones(2)), cls()(torch.ones(2)))


def test_nothing_is_dropped_without_a_decorator() -> None:
    explanation = explain(torch.nn.Linear(2, 2), inputs=(torch.ones(1, 2),))
    assert (explanation.dropped, explanation.differs, explanation.limits) == ([], "", [])


class WithoutType(torch.nn.Module):
    def forward(self, x, n):
        return x * n


class Scripting(torch.nn.Module):
    """Computes something else in TorchScript, and counts the calls."""

    def __init__(self, raises: bool) -> None:
        super().__init__()
        self.raises = raises
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        if torch.jit.is_scripting():
            if self.raises:
                raise ValueError("too few " + str(x.size(0)))
            return x + 1
        return x


def function_of_lists(parts):
    return parts[0] * 2


NUMBER = (
    "the scripted model raises RuntimeError: forward() Expected a value of type 'Tensor (inferred)' for argument 'n'"
)
ANSWERS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "an argument without a type": (WithoutType, (torch.ones(2), 3), f"{NUMBER} but instead found type 'int'."),
    "an error": (lambda: Scripting(True), (torch.ones(2),), "the scripted model raises ValueError: too few 2 ("),
    "a number": (
        lambda: Scripting(False),
        (torch.ones(2),),
        "output 0 at [0]: 1.0 of the model, 2.0 of the scripted model",
    ),
    "a decorator": (
        Doubled,
        (torch.ones(2),),
        "output 0 at [0]: 4.0 of the model, 2.0 of the scripted model",
    ),
    "a function": (
        lambda: function_of_lists,
        ([torch.ones(2)],),
        "the scripted model raises RuntimeError: function_of_lists() Expected a value of type",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_scripted_model_that_answers_otherwise(case: str) -> None:
    """Scripting succeeds, and only a run shows the error. Copies run: the buffer of the model stays as it is."""
    make, inputs, words = ANSWERS[case]
    model = make()
    explanation = explain(model, inputs=inputs)
    assert (explanation.failure, explanation.limits) == (None, [])
    assert explanation.differs.startswith(words)
    assert f"  differs {words}" in str(explanation)
    if case == "an error":
        assert explanation.differs.endswith(f"({__file__}:{_line_of('raise ValueError')})")
        assert float(model.calls) == float(explanation.scripted.calls) == 0
    assert explain(model, inputs=inputs, prove=False).differs == ""


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def test_inputs_that_the_model_refuses_compare_nothing() -> None:
    explanation = explain(torch.nn.Linear(2, 2), inputs=(torch.ones(1, 3),))
    (limit,) = explanation.limits
    assert limit.startswith("not compared with the model, which raises RuntimeError: mat1 and mat2 shapes")
