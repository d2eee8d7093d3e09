"""script_explain: the record of a call of torch.jit.script, the output, and unchanged scripting."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from failing import quiet
from hookpatch_torchscript import Explanation, explain
from hookpatch_torchscript._report.tree import show
from hookpatch_torchscript._scripting import seams
from hookpatch_torchscript.errors import NotWrittenWarning

import hookpatch

pytestmark = pytest.mark.model

NETS = '''
from typing import Any, Dict, List, Optional, Union

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


class Block(nn.Sequential):
    def __init__(self, inside: int, outside: int):
        super().__init__(nn.Conv2d(inside, outside, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2))


class Net(nn.Module):
    """An if on a flag before the layers: a custom layer, two conv blocks, flatten, three Linear."""

    __constants__ = ["scaled"]

    def __init__(self, scaled: bool = True):
        super().__init__()
        self.scaled = scaled
        if scaled:
            self.scale = Scale(8)
        self.blocks = nn.Sequential(Block(3, 4), Block(4, 4))
        self.flatten = nn.Flatten()
        self.head = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 2))

    def forward(self, x):
        if self.scaled:
            x = self.scale(x)
        return self.head(self.flatten(self.blocks(x)))


class Thing:
    def __init__(self, *parts):
        self.parts = parts


def doubled(x):
    return x * 2


class Everything(nn.Module):
    """What attributes can be, and what they can be known by."""

    __jit_ignored_attributes__ = ["logger"]
    __constants__ = ["levels"]
    bias: Optional[Tensor]
    either: Union[int, str]

    def __init__(self):
        super().__init__()
        self.bias = None
        self.nothing = None
        self.either = 3
        self.tensors = [torch.ones(2), torch.ones(3)]
        self.by_name = {"a": torch.ones(2)}
        self.levels = (1, 2)
        self.layers = nn.ModuleList([Scale(2), Scale(2)])
        self.named = nn.ModuleDict({"one": Scale(2)})
        self.logger = object()
        self.thing = Thing(1)
        self.activation = doubled
        self.relu = torch.relu
        self.register_buffer("mask", torch.ones(2))
        self.register_buffer("empty", None)
        self.count = 4

    @property
    def size(self):
        return self.count

    @torch.jit.export
    def reset(self, x: Tensor):
        return self.step(x, 1)

    def step(self, x, n: int):
        return x + n

    def forward(self, x, n: int = 2):
        for layer in self.layers:
            x = layer(x)
        return self.relu(self.activation(self.step(x, n + self.size)))


class Unannotated(nn.Module):
    def forward(self, x, n):
        return x[:, range(n)]


@torch.jit.ignore
def seen(x: Tensor) -> Tensor:
    return x


class Caller(nn.Module):
    def forward(self, x):
        return outer(x)


def outer(x):
    return inner(x) + 1


def inner(x):
    return seen(x) * 2
'''


@contextmanager
def loaded(folder: Path) -> Iterator[Any]:
    """Import the models above from a new file, because torch keeps compiled functions."""
    file = folder / "nets_to_script.py"
    file.write_text(NETS)
    specification = importlib.util.spec_from_file_location(file.stem, file)
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module
    del sys.modules[file.stem]


@pytest.fixture
def nets(tmp_path: Path) -> Iterator[Any]:
    """The models above."""
    with loaded(tmp_path) as module:
        yield module


def line(code: str) -> int:
    """Return the number of the line with the code in the models' file."""
    return [text.strip() for text in NETS.splitlines()].index(code) + 1


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    """Return the explanation of the model with all kinds of attributes."""
    with loaded(tmp_path_factory.mktemp("everything")) as nets:
        explanation = explain(nets.Everything())
    assert explanation.error is None
    return explanation


def active(**options: Any) -> hookpatch.Session:
    """Return a session of the plugin with the given options."""
    return hookpatch.active("script_explain", options={"script_explain": options})


def test_each_attribute_has_a_row_that_says_how_its_type_was_known(everything: Explanation) -> None:
    """An attribute's row has name, Python type, TorchScript type, and the source of the type or the reason for none."""
    rows = {
        attribute.name: (attribute.python_type, attribute.torchscript_type, attribute.known_by)
        for attribute in everything.modules[0].attributes
    }
    rows.pop("_is_full_backward_hook"), rows.pop("training")
    assert rows == {
        "logger": ("object", None, "ignored by the user"),
        "mask": ("Tensor float32[2]", "Tensor", "buffer"),
        "empty": ("None", "NoneType", "buffer"),
        "levels": ("tuple[int]", "tuple[int]", "constant"),
        "bias": ("None", "Optional[Tensor]", "annotation"),
        "nothing": ("None", "NoneType", "inferred"),
        "either": ("int", "Union[int, str]", "annotation"),
        "tensors": ("list[Tensor]", "List[Tensor]", "inferred"),
        "by_name": ("dict[str, Tensor]", "Dict[str, Tensor]", "inferred"),
        "thing": ("nets_to_script.Thing", None, "failed"),
        "activation": ("function", "__torch__.nets_to_script.doubled", "function"),
        "relu": ("builtin_function_or_method", "aten::relu", "builtin function"),
        "count": ("int", "int", "inferred"),
    }
    (failed,) = [attribute for attribute in everything.modules[0].attributes if attribute.name == "thing"]
    assert failed.problem == "the value is of the Python type nets_to_script.Thing, which TorchScript does not have"
    (weight,) = [attribute for attribute in everything.modules[2].attributes if attribute.name == "weight"]
    assert (weight.python_type, weight.torchscript_type, weight.known_by) == (
        "Parameter float32[2]",
        "Tensor",
        "parameter",
    )


def test_each_module_has_its_path_class_line_and_origin_of_its_type(everything: Explanation) -> None:
    """Modules are listed in the model's order. A type is new, or shared with the first module of the type."""
    rows = [(module.path, module.class_name, module.origin, module.shared_with) for module in everything.modules]
    assert rows == [
        ("", "Everything", "new", None),
        ("layers", "ModuleList", "new", None),
        ("layers.0", "Scale", "new", None),
        ("layers.1", "Scale", "shared", "layers.0"),
        ("named", "ModuleDict", "new", None),
        ("named.one", "Scale", "shared", "layers.0"),
    ]
    root, scale = everything.modules[0], everything.modules[2]
    for module, code in ((root, "class Everything(nn.Module):"), (scale, "class Scale(nn.Module):")):
        assert module.place is not None
        assert (Path(module.place.file).name, module.place.line) == ("nets_to_script.py", line(code))
        assert module.place.code == code
    assert (root.buffers, root.modules, scale.parameters) == (["mask", "empty"], ["layers", "named"], ["weight"])
    assert root.type_name == str(everything.scripted._c._type())
    assert set(root.seconds) == {"type", "attributes", "check", "compile"}
    assert all(seconds >= 0 for seconds in root.seconds.values())


def test_each_method_says_from_where_it_was_reached(everything: Explanation) -> None:
    """Torch compiles forward and exported methods directly. A called method has the caller and the line of the call."""
    methods = [
        (method.name, method.kind, method.path, method.reached_from, method.why) for method in everything.methods
    ]
    assert methods == [
        ("Thing", "class", None, None, None),
        ("doubled", "function", None, None, "asked for"),
        ("Scale.forward", "method", "layers.0", None, "forward"),
        ("Everything.forward", "method", "", None, "forward"),
        ("Everything.reset", "method", "", None, "exported"),
        ("Everything.size", "property", "", None, None),
        ("Everything.step", "method", "", "Everything.forward", None),
    ]
    assert [method.name for method in everything.methods if not method.compiled] == ["Thing"]
    step = everything.methods[-1]
    assert step.place is not None
    assert step.reached_at is not None
    assert step.place.line == line("def step(self, x, n: int):")
    assert step.reached_at.line == line("return self.relu(self.activation(self.step(x, n + self.size)))")
    assert step.seconds is not None


def test_function_that_a_function_calls_is_reached_from_it(nets: Any) -> None:
    """A function called by a function has the caller and the line of the call."""
    methods = [(method.name, method.reached_from, method.reached_at) for method in explain(nets.Caller()).methods]
    assert [(name, caller, place.line if place else None) for name, caller, place in methods] == [
        ("Caller.forward", None, None),
        ("outer", "Caller.forward", line("return outer(x)")),
        ("inner", "outer", line("return inner(x) + 1")),
    ]


@pytest.mark.parametrize("scaled", [True, False])
def test_layers_behind_a_flag_are_those_that_are_there(nets: Any, scaled: bool) -> None:
    """The rows are the existing layers, with and without the layer that a flag of the constructor makes."""
    model = nets.Net(scaled)
    explanation = explain(model)
    paths = [module.path for module in explanation.modules]
    assert paths == [path for path, _ in model.named_modules()]
    assert ("scale" in paths) is scaled
    x = torch.ones(1, 3, 8, 8)
    torch.testing.assert_close(explanation.scripted(x), model(x))


def test_failing_call_is_explained_without_raising(nets: Any) -> None:
    """The explanation of a failing call has the error with the note, and the record up to the failure."""
    explanation = explain(nets.Unannotated())
    assert explanation.scripted is None
    assert isinstance(explanation.error, RuntimeError)
    assert explanation.failure is not None
    assert explanation.failure.place is not None
    assert explanation.failure.place.line == line("return x[:, range(n)]")
    assert [(method.name, method.compiled) for method in explanation.methods] == [("Unannotated.forward", False)]
    assert explanation.error.__notes__[0] in str(explanation)


TREE = """\
torch.jit.script Caller  scripted in #  called at test_script_explain.py:#
├── Caller  nets_to_script.py:#  new type  type #  attributes #  compile #
│   └── compiled  Caller.forward  nets_to_script.py:#  forward  #
└── compiled  outer  nets_to_script.py:#  called in Caller.forward, nets_to_script.py:#  #
    compiled  inner  nets_to_script.py:#  called in outer, nets_to_script.py:#           #"""


def test_tree_is_plain_in_a_log_and_coloured_in_a_terminal(nets: Any) -> None:
    """A log and a terminal get the same words, but only a terminal gets escape codes."""
    explanation = explain(nets.Caller())
    numbers = re.compile(r"\d+(\.\d+)?( m?s\b)?")
    plain = re.sub(r" +$", "", str(explanation), flags=re.MULTILINE)
    squeezed = [re.sub(r" {2,}", "  ", numbers.sub("#", text)) for text in plain.splitlines()]
    assert squeezed == [re.sub(r" {2,}", "  ", text) for text in TREE.splitlines()]

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, log = Terminal(), io.StringIO()
    show(explanation, terminal)
    show(explanation, log)
    assert "\x1b[" in terminal.getvalue()
    assert log.getvalue() == str(explanation) + "\n"


def test_json_has_the_documented_keys(everything: Explanation) -> None:
    """JSON has the documented keys, without the scripted module and the error, and can be read back."""
    read = json.loads(json.dumps(everything.to_dict()))
    documented = (Path(__file__).parents[1] / "README.md").read_text()
    assert list(read) == [
        *("version", "seconds", "limits", "what", "name", "place", "called_at", "modules", "methods", "failure"),
        *("dropped", "differs"),
    ]
    failed = explain(torch.nn.LazyLinear(2)).to_dict()["failure"]
    keys = {*read, *read["modules"][0], *read["modules"][0]["attributes"][0], *read["methods"][0], *failed}
    missing = {key for key in keys if f"`{key}`" not in documented}
    assert not missing
    assert read["modules"][0]["attributes"][0] == {
        "name": "logger",
        "python_type": "object",
        "torchscript_type": None,
        "known_by": "ignored by the user",
        "problem": None,
    }


def scripted(model: Any) -> Any:
    """Return torch.jit.script of a model."""
    with quiet():
        return torch.jit.script(model)


def test_each_outermost_call_is_written(nets: Any, tmp_path: Path) -> None:
    """Each outermost call is written, but no inner call. A file gets all calls, a folder gets a file for each call."""
    with active(to=str(tmp_path / "all.txt")):
        scripted(nets.Caller())
        scripted(nets.Everything())
    assert [
        text for text in (tmp_path / "all.txt").read_text().splitlines() if text.startswith("torch.jit.script ")
    ] == [
        text for text in (tmp_path / "all.txt").read_text().splitlines() if "  called at test_script_explain.py" in text
    ]
    with active(to=f"{tmp_path}/each/", form="json"):
        scripted(nets.Caller())
        scripted(nets.doubled)
    names = [json.loads(file.read_text())["name"] for file in sorted((tmp_path / "each").iterdir())]
    assert names == ["Caller", "doubled"]


def test_failures_only_leaves_out_what_was_scripted(nets: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With failures_only a failure alone is written to stderr, as a line of JSON."""
    with active(form="json", failures_only=True):
        scripted(nets.Caller())
        with pytest.raises(RuntimeError) as raised:
            scripted(nets.Unannotated())
    (text,) = capsys.readouterr().err.splitlines()
    failure = json.loads(text)["failure"]
    assert failure["problem"] in raised.value.__notes__[0]
    assert failure["place"]["line"] == line("return x[:, range(n)]")


def test_what_cannot_be_written_is_a_warning(nets: Any, tmp_path: Path) -> None:
    """An output that cannot be written is a warning, and scripting continues."""
    message = (
        f"plugin 'script_explain': nothing was written to {tmp_path}/none/all.txt: No such file or directory; "
        "name another path with the option 'to'"
    )
    with active(to=f"{tmp_path}/none/all.txt"), pytest.warns(NotWrittenWarning) as warned:
        assert scripted(nets.doubled)(torch.ones(1)).item() == 2
    assert [str(warning.message) for warning in warned] == [message]


def passing_on(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    """Call the wrapped function: a foreign wrapper."""
    return wrapped(*args, **kwargs)


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_names_of_a_class_are_those_of_the_caller(tmp_path: Path, reach: Any) -> None:
    """torch.jit.script counts frames to find a class's names. Frames of wrappers do not disturb the count."""

    class Part:
        def __init__(self, number: int) -> None:
            self.number = number

    class Held:
        def __init__(self, part: Part) -> None:
            self.part = part

    with (
        active(to=str(tmp_path / "all.txt")),
        hookpatch.active(hookpatch.wrap("torch.jit:script", passing_on, reach=reach)),
        quiet(),
    ):
        assert torch.jit.script(Held) is Held
    assert (tmp_path / "all.txt").read_text().startswith("torch.jit.script Held  scripted in")


def test_type_store_is_as_it_would_be(nets: Any, tmp_path: Path) -> None:
    """With the plugin, torch finds the types of a call again in the next call. explain() keeps no types."""
    store = torch.jit._recursive.concrete_type_store
    with active(to=f"{tmp_path}/each/", form="json"):
        first = scripted(nets.Caller())
        before = dict(store.type_store), {cls: list(types) for cls, types in store.type_store.items()}
        compiled = set(store.methods_compiled)
        assert [module.class_name for module in explain(nets.Everything()).modules][:2] == ["Everything", "ModuleList"]
        assert dict(store.type_store) == before[0]
        assert {cls: list(types) for cls, types in store.type_store.items()} == before[1]
        assert store.methods_compiled == compiled
        second = scripted(nets.Caller())
    assert first._c._type() == second._c._type()
    origins = [json.loads(file.read_text())["modules"][0]["origin"] for file in sorted((tmp_path / "each").iterdir())]
    assert origins == ["new", "found in the store"]


PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch
import nets_to_script as nets
torch.manual_seed(0)
makes = nets.Net, nets.Everything, nets.Caller, nets.Net, nets.Unannotated, lambda: nets.doubled, lambda: nets.Thing
for make in makes:
    try:
        made = torch.jit.script(make())
        print(getattr(made, "code", made))
    except Exception as error:
        print(type(error).__name__, error)
store = torch.jit._recursive.concrete_type_store
print(*((cls.__name__, len(kept)) for cls, kept in store.type_store.items()), len(store.methods_compiled))
x = torch.arange(192.0).view(1, 3, 8, 8)
print(torch.jit.script(nets.Net())(x))
"""


def test_program_is_the_same_with_it_and_without(nets: Any, tmp_path: Path) -> None:
    """An unmodified program has the same code, errors, numbers and type store with the plugin and without."""
    arguments = [sys.executable, "-c", PROGRAM, str(Path(nets.__file__).parent)]
    plain = subprocess.run(arguments, capture_output=True, text=True, check=True)
    variables = hookpatch.environment("script_explain", options={"script_explain": {"to": str(tmp_path / "all.txt")}})
    patched = subprocess.run(arguments, capture_output=True, text=True, check=True, env={**os.environ, **variables})
    assert plain.stdout == patched.stdout
    assert plain.stderr == patched.stderr == ""
    assert (tmp_path / "all.txt").read_text().count("torch.jit.script ") == 8


@pytest.mark.filterwarnings("ignore:.*(TorchScript|The feature will be removed):DeprecationWarning")
def test_calls_in_an_export_are_recorded(nets: Any, tmp_path: Path) -> None:
    """A call of torch.jit.script inside torch.onnx.export is recorded."""
    tried = torch.jit.script_if_tracing(nets.doubled)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return tried(x)

    file = io.BytesIO()
    with active(to=str(tmp_path / "all.txt")), quiet():
        torch.onnx.export(Model().eval(), (torch.ones(2),), file, dynamo=False)
    model = onnx.load_model_from_string(file.getvalue())
    assert [node.op_type for node in model.graph.node] == ["Constant", "Mul"]
    assert (tmp_path / "all.txt").read_text().startswith("torch.jit.script doubled  scripted in")


def test_each_thread_has_its_own_record(nets: Any) -> None:
    """Concurrent calls have separate records, and torch is patched only for the scripting thread."""
    class_names: dict[int, list[str]] = {}
    barrier = threading.Barrier(2)

    def run(number: int, make: Callable[[], Any]) -> None:
        barrier.wait()
        class_names[number] = [module.class_name for module in explain(make()).modules]

    makes = (nets.Caller, nets.Unannotated)
    threads = [threading.Thread(target=run, args=(number, make)) for number, make in enumerate(makes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert class_names == {0: ["Caller"], 1: ["Unannotated"]}


def test_compiled_code_is_kept(nets: Any, tmp_path: Path) -> None:
    """The patches of a call do not make torch.compile drop compiled code."""
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    with active(to=str(tmp_path / "all.txt")):
        model = torch.compile(nets.Net().eval(), backend=backend)
        x = torch.ones(1, 3, 8, 8)
        before = model(x)
        scripted(nets.Net())
        torch.testing.assert_close(model(x), before)
    assert len(graphs) == 1
    torch.compiler.reset()


def test_failure_behind_a_function_that_torch_goes_on_without_is_its_own(make_module: Callable[..., Any]) -> None:
    """Torch ignores a function attribute that fails to compile. The next attribute is the named cause."""
    module = make_module(
        "two_of_them",
        """\
        import numpy
        from torch import nn


        def total(x):
            return added(x)


        def added(x):
            return numpy.sum(x)


        class Net(nn.Module):
            last: object

            def __init__(self):
                super().__init__()
                self.unused = total
                self.last = 1

            def forward(self, x):
                return x
        """,
    )
    failure = explain(module.Net()).failure
    assert failure is not None
    assert (failure.attribute, failure.inside, failure.reached) == ("last", None, [])
    assert failure.place is not None
    assert failure.place.code == "self.last = 1"


def test_annotation_in_a_file_of_texts_is_named(make_module: Callable[..., Any]) -> None:
    """With `from __future__ import annotations` TorchScript reads no annotation of a class body."""
    source = """\
        from __future__ import annotations
        from torch import nn


        class Net(nn.Module):
            seen: list[int]

            def __init__(self) -> None:
                super().__init__()
                self.seen = []

            def forward(self, x):
                return x + len(self.seen)
        """
    module = make_module("texts_as_annotations", source)
    explanation = explain(module.Net())
    assert explanation.error is not None
    assert explanation.error.__notes__ == [
        "script_explain: attribute seen of Net: an annotation is a text (list[int]), which TorchScript does not read "
        f"in a class body, nor of an ignored function\n  at      {module.__file__}:10: self.seen = []\n"
        "  try     take 'from __future__ import annotations' out of the file, and the quotes from the annotation"
    ]
    mended = make_module("objects_as_annotations", source.replace("from __future__ import annotations", ""))
    assert explain(mended.Net()).error is None


def test_class_without_source_is_named() -> None:
    """A class without source, from a prompt or exec, is named."""
    space: dict[str, Any] = {"__name__": __name__}
    exec("import torch\nclass Typed(torch.nn.Module):\n  def forward(self, x): return x", space)
    explanation = explain(space["Typed"]())
    assert explanation.error is not None
    assert explanation.error.__notes__ == [
        "script_explain: Typed: torch cannot read the source: the code was not defined in a file, or the file has "
        "gone\n"
        "  try     define the code in a file that exists when the model is scripted"
    ]


def test_torch_without_a_seam_is_scripted_and_says_so(nets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a function of torch the record lacks a part, which the explanation says. The rest is recorded."""
    lacking = {**seams._OF_TORCH, "torch.jit._recursive:no_such_function": seams.Recorder.check}
    monkeypatch.setattr(seams, "_OF_TORCH", lacking)
    explanation = explain(nets.Caller())
    limit = (
        f"torch {torch.__version__} lacks the function torch.jit._recursive:no_such_function: its steps are missing "
        "from the explanation"
    )
    assert explanation.limits == [limit]
    assert [method.name for method in explanation.methods] == ["Caller.forward", "outer", "inner"]
    assert f"  limit   {limit}" in str(explanation)


def test_python_without_torchscript_is_said_in_one_line() -> None:
    """torch.jit is not supported on Python 3.14 and later by torch itself."""
    assert seams.limits("2.13.0", (3, 14)) == ["torch 2.13.0 does not support torch.jit on Python 3.14: it may break"]
    assert seams.limits("2.13.0", (3, 13)) == []


def test_error_of_our_own_is_not_the_programs(nets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the recording is a line of the explanation, and scripting continues."""

    def broken(recorder: Any, wrapped: Any, *_: Any) -> Any:
        raise ValueError("no such thing")

    broken_seams = {**seams._OF_TORCH, "torch.jit._recursive:make_stub": broken}
    monkeypatch.setattr(seams, "_OF_TORCH", broken_seams)
    explanation = explain(nets.Caller())
    assert explanation.limits == ["not all was recorded: ValueError: no such thing"]
    assert explanation.scripted(torch.ones(1)).item() == 3


def test_options_are_checked() -> None:
    """An unknown form is refused before torch is patched."""
    message = "options of plugin 'script_explain'"
    with pytest.raises(hookpatch.errors.OptionsError, match=message):
        active(form="html")
