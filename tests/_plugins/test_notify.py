"""Plugins are notified of sites that have changed. The built-in plugin for torch drops stale compiled code only."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import BypassError, BypassWarning, PatchFailedWarning, PluginError, RestoreError

LISTENER: Final = '''
"""Hears of changes."""
import hookpatch
heard, fails = [], []

@hookpatch.hookimpl
def hookpatch_patches():
    yield hookpatch.replace("thing:own", 2)

@hookpatch.hookimpl
def hookpatch_changed(sites):
    heard.append(sorted((str(site.slot), site.original, site.value) for site in sites))
    if fails:
        raise fails.pop()
'''


@pytest.fixture
def listener(make_distribution: Callable[..., Path], make_module: Callable[[str, str], ModuleType]) -> Iterator[Any]:
    """Install a plugin with the hook for changes, and its target, the module ``thing``."""
    make_distribution("listening", plugins={"listener": "listener"}, modules={"listener": LISTENER})
    make_module("thing", "own, other = 1, 10\n")
    return importlib.import_module("listener")


def test_plugin_hears_of_its_own_and_of_other_sessions_sites(listener: Any) -> None:
    """A plugin is notified of all sessions' sites while its session is open, and at the end of the session."""
    patch = hookpatch.replace("thing:other", 20)
    with hookpatch.active(patch):
        pass
    with hookpatch.active("listener"), hookpatch.active(patch):
        assert listener.heard == [[("thing:own", 1, 2)], [("thing:other", 10, 20)]]
    assert listener.heard[2:] == [[("thing:other", 10, 10)], [("thing:own", 1, 1)]]
    with hookpatch.active(patch):
        pass
    assert len(listener.heard) == 4


def test_plugin_hears_of_an_import_and_of_a_reload(listener: Any, write_module: Callable[[str, str], Path]) -> None:
    """The notification comes after the module has run and the slots hold the patched values."""
    write_module("late", "x = 1\n")
    with hookpatch.active("listener"), hookpatch.active(hookpatch.replace("late:x", 2)):
        late = importlib.import_module("late")
        importlib.reload(late)
    assert listener.heard[1:-1] == [[("late:x", 1, 2)], [("late:x", 1, 2)], [("late:x", 1, 1)]]


def test_plugin_that_fails_keeps_its_session_from_opening(listener: Any) -> None:
    """The error names the failing plugin, and all applied patches are restored."""
    module = importlib.import_module("thing")
    listener.fails.append(KeyError("cache"))
    with pytest.raises(
        PluginError, match=r"(?s)'listener'.*raised KeyError when told of changes at thing:own: 'cache'"
    ) as caught:
        hookpatch.active("listener").open()
    assert isinstance(caught.value.__cause__, KeyError)  # with the traceback into the plugin
    assert module.own == 1


@pytest.mark.parametrize("at_the_end", [False, True])
def test_plugin_does_not_end_the_process(listener: Any, monkeypatch: pytest.MonkeyPatch, at_the_end: bool) -> None:
    """os._exit in the hook is an error that names the plugin; everything is restored, and os._exit works again."""
    module, original = importlib.import_module("thing"), os._exit

    class Failing(list[object]):
        def pop(self, *_: object) -> Any:
            self.clear()
            os._exit(0)

    session = hookpatch.active("listener")
    if at_the_end:
        session.open()
    monkeypatch.setattr(listener, "fails", Failing([1]))
    with pytest.raises((PluginError, RestoreError)) as caught:
        (session.close if at_the_end else session.open)()
    error = caught.value.exceptions[0] if isinstance(caught.value, RestoreError) else caught.value
    assert re.search(r"'listener'.*called os\._exit\(0\) when told of changes at thing:own", str(error))
    assert (module.own, os._exit) == (1, original)


def test_plugin_that_fails_at_an_end_is_told_of(listener: Any) -> None:
    """In the RestoreError; everything is restored."""
    module = importlib.import_module("thing")
    session = hookpatch.active("listener").open()
    listener.fails.append(KeyError("cache"))
    with pytest.raises(RestoreError) as caught:
        session.close()
    assert [type(error) for error in caught.value.exceptions] == [PluginError]
    assert isinstance(caught.value.exceptions[0].__cause__, KeyError)
    assert module.own == 1


def test_plugin_that_fails_in_somebodys_import_is_a_warning(
    listener: Any, write_module: Callable[[str, str], Path]
) -> None:
    """The import goes on."""
    write_module("late", "x = 1\n")
    with hookpatch.active("listener"), hookpatch.active(hookpatch.replace("late:x", 2)):
        listener.fails.append(KeyError("cache"))
        with pytest.warns(PatchFailedWarning, match="listener"):
            assert importlib.import_module("late").x == 2


# --- torch

DOCS: Final = Path(__file__).parents[2] / "docs"
SCRIPTED: Final = """
import torch

class Part:
    def __init__(self, by: float = 2.0):
        self.by = by
    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Part().run(x)
"""
MODELS: Final = """
import torch
from torch import nn
import torch.nn.functional as F

class Norm(nn.Module):
    def forward(self, x): return x * 2
    def unused(self, x): return x

class Other(nn.Module):
    def forward(self, x): return x * 3

def never(x): return x

def act(x): return x * 5
REGISTRY = {"act": act}

class Calling(nn.Module):
    def forward(self, x): return act(x)

class OfTorch(nn.Module):
    def forward(self, x): return F.leaky_relu(-x)

class OfC(nn.Module):
    def forward(self, x): return torch.addcmul(x, x, x)

class Chosen(nn.Module):
    def forward(self, x): return REGISTRY["act"](x)
"""


@pytest.mark.model
def test_only_what_may_hold_the_old_code_is_compiled_anew(make_module: Callable[[str, str], ModuleType]) -> None:
    """Models compiled before any patch share a frame of torch, the one of Sequential."""
    import torch
    from torch._dynamo.testing import CompileCounter

    models = make_module("models", MODELS)
    torch._dynamo.reset()
    of_normed, of_plain = CompileCounter(), CompileCounter()
    x = torch.ones(2)
    normed = torch.compile(torch.nn.Sequential(models.Norm()), backend=of_normed, fullgraph=True)
    plain = torch.compile(torch.nn.Sequential(models.Other()), backend=of_plain, fullgraph=True)

    def results() -> tuple[float, float]:
        return normed(x)[0].item(), plain(x)[0].item()

    def compiled() -> tuple[int, int]:
        return of_normed.frame_count, of_plain.frame_count

    assert results() == (2, 3)
    assert compiled() == (1, 1)
    for target in ("models:never", "models:Norm.unused", "string:capwords"):
        with hookpatch.active(hookpatch.wrap(target, lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))):
            assert results() == (2, 3)
        assert results() == (2, 3)
    assert compiled() == (1, 1)
    with hookpatch.active(hookpatch.wrap("models:Norm.forward", _tenfold)):
        assert results() == (20, 3)
        assert compiled() == (2, 1)
    assert results() == (2, 3)
    assert compiled() == (3, 1)
    torch._dynamo.reset()


TARGETS: Final = {
    "Norm": "{models}:Norm.forward",
    "Calling": "{models}:act",
    "OfTorch": "torch.nn.functional:leaky_relu",
    "OfC": "torch:addcmul",
    "Chosen": "{models}:REGISTRY['act']",
}


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "reach"),
    [*((name, "slot") for name in TARGETS), *((name, "everywhere") for name in ("Norm", "Calling", "Chosen"))],
)
def test_patch_that_comes_and_goes_often_meets_no_limit_of_torch(
    make_module: Callable[[str, str], ModuleType], name: str, reach: Any
) -> None:
    """Dynamo gives a frame up after eight recompilations; with fullgraph the ninth is an error."""
    import torch
    from torch._dynamo.testing import CompileCounter

    # Each module has a name of its own: Dynamo keeps the first module under a name.
    models = make_module(f"models_{name}_{reach}", MODELS)
    target = TARGETS[name].format(models=models.__name__)
    torch._dynamo.reset()
    compiled = CompileCounter()
    model = torch.compile(torch.nn.Sequential(getattr(models, name)()), backend=compiled, fullgraph=True)
    other_model = torch.compile(torch.nn.Sequential(models.Other()), backend="eager", fullgraph=True)
    x = torch.ones(1)
    plain = model(x).item()
    for _ in range(10):
        assert (model(x).item(), other_model(x).item()) == (plain, 3)
        with hookpatch.active(hookpatch.wrap(target, _tenfold, reach=reach)):
            assert (model(x).item(), other_model(x).item()) == (pytest.approx(plain * 10), 3)
    # torch keeps guarded code, and finds the code again: compiled once with the patch, once without.
    assert name == "Norm" or compiled.frame_count == 2
    for factor in range(2, 8):
        times = eval(f"lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs) * {factor}")  # other code each
        with hookpatch.active(hookpatch.wrap(target, times, reach=reach)):
            assert model(x).item() == pytest.approx(plain * factor)
        assert model(x).item() == plain
    torch._dynamo.reset()


@pytest.mark.model
def test_what_torch_is_patched_with_for_others_is_taken_back(make_module: Callable[[str, str], ModuleType]) -> None:
    """The last patch in need of torch's functions restores them; until then the report lists these patches."""
    import torch._dynamo.variables.builder
    import torch.fx.graph
    import torch.jit._recursive
    import torch.nn.functional

    importlib.import_module("multiprocessing.popen_spawn_posix")  # patched by hookpatch, to hand blocks on
    make_module("models", MODELS)

    def there() -> list[object]:
        return [
            torch._dynamo.variables.builder.VariableBuilder._wrap,
            torch.fx.graph._is_from_torch,
            torch.nn.functional.handle_torch_function,
            torch.jit._recursive.create_script_module,
            torch._jit_internal._qualified_name,
            torch.fx.Tracer.create_args_for_root,
        ]

    def differing() -> list[int]:
        return [
            index
            for index, (current, earlier) in enumerate(zip(there(), before, strict=True))
            if current is not earlier
        ]

    before = there()
    with hookpatch.active(hookpatch.wrap("models:Norm", _through), hookpatch.wrap("models:act", _through)):
        assert differing() == [0, 4, 5]
        assert {patch.target for patch in hookpatch.report() if patch.plugin == "torch"} == {
            "torch._dynamo.variables.builder:VariableBuilder._wrap",
            "torch._jit_internal:_qualified_name",
            "torch.fx._symbolic_trace:Tracer.create_args_for_root",
        }
        first = hookpatch.active(hookpatch.wrap("torch.nn.functional:leaky_relu", _through)).open()
        assert differing() == [0, 1, 2, 4, 5]
        with hookpatch.active(hookpatch.wrap("torch.nn.functional:elu", _through)):
            first.close()
            assert differing() == [0, 1, 2, 4, 5]
        assert differing() == [0, 4, 5]
    with hookpatch.active(hookpatch.wrap("models:Norm.forward", _through)):
        assert differing() == [3, 5]
    assert differing() == []


PART: Final = "class Part:\n    def __init__(self, by=2.0): self.by = by\n    def run(self, x): return x * self.by"
WRAPPERS: Final = """
import contextvars, sys, warnings, hookpatch, vendor

def tenfold(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs) * 10

def tenfold_by(wrapped, instance, args, kwargs):
    made = wrapped(*args, **kwargs)
    made.by *= 10
    return made
"""

BEFORE: Final = """
def patches():
    yield hookpatch.wrap("torch.nn.functional:leaky_relu", tenfold)
    yield hookpatch.wrap("torch.nn.functional:elu", tenfold, reach="everywhere")
    yield hookpatch.wrap("torch:addcmul", tenfold)
    yield hookpatch.wrap("vendor:Part", tenfold_by)
    yield hookpatch.wrap("vendor:in_slot", tenfold)
    yield hookpatch.wrap("vendor:in_place", tenfold, reach="everywhere")

process = hookpatch.active(*patches()).open()
task = hookpatch.active(hookpatch.wrap("vendor:act", tenfold), scope="task").open()
import torch
import torch.nn.functional as F

class Model(torch.nn.Module):
    def forward(self, x):
        return F.leaky_relu(x) + F.elu(x) + torch.addcmul(x, x, x) + vendor.Part().run(x) + vendor.act(x)

x = torch.ones(1)
model = torch.compile(Model(), backend="aot_eager", fullgraph=True)
print(Model()(x).item(), model(x).item(), contextvars.Context().run(model, x).item())
print(torch.export.export(Model(), (x,)).module()(x).item())

class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return vendor.in_slot(x) + vendor.in_place(x)

warnings.simplefilter("ignore")
print(torch.jit.script(Plain())(x).item())
task.close()
process.close()
print(Model()(x).item(), model(x).item(), any("hookpatch" in type(finder).__module__ for finder in sys.meta_path))
"""


@pytest.mark.model
def test_patches_that_are_on_before_torch_is_imported(write_module: Callable[[str, str], Path]) -> None:
    """The plugin for torch hears of earlier patches, of torch and of captured code, once torch is imported."""
    act = "def act(x): return x * 2"
    plain = "def in_slot(x): return x * 3\ndef in_place(x): return x * 4"
    folder = write_module("vendor", f"{act}\n{PART}\n{plain}\n").parent
    write_module("script", WRAPPERS + BEFORE)
    completed = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True)
    assert completed.stdout.splitlines() == ["80.0 80.0 62.0", "80.0", "70.0", "8.0 8.0 False"], completed.stderr


ALONE: Final = """
{session}
session.open()
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return vendor.Part().run(x) + vendor.act(x)

x = torch.ones(1)
model = torch.compile(Model(), backend="aot_eager", fullgraph=True)
print(Model()(x).item(), model(x).item(), contextvars.Context().run(model, x).item())
session.close()
print(model(x).item(), any("hookpatch" in type(finder).__module__ for finder in sys.meta_path))
"""


@pytest.mark.model
@pytest.mark.parametrize(
    ("session", "outside"),
    [
        pytest.param("session = hookpatch.active(hookpatch.wrap('vendor:Part', tenfold_by))", 22.0, id="class"),
        pytest.param("session = hookpatch.active(hookpatch.wrap('vendor:act', tenfold), scope='task')", 4.0, id="task"),
    ],
)
def test_a_patch_that_is_on_alone_before_torch_is_imported(
    write_module: Callable[[str, str], Path], session: str, outside: float
) -> None:
    """No patch of torch brings the plugin for torch: the session waits for torch."""
    folder = write_module("vendor", f"def act(x): return x * 2\n{PART}\n").parent
    write_module("script", WRAPPERS + ALONE.replace("{session}", session))
    completed = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True)
    assert completed.stdout.splitlines() == [f"22.0 22.0 {outside}", "4.0 False"], completed.stderr


@pytest.mark.model
def test_patch_of_a_method_of_tensors_is_warned_of() -> None:
    """Captured code lacks the patch or runs the patch twice; eager calls have the patch once."""
    import torch

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hookpatch.active(hookpatch.wrap("torch:Tensor.relu", _tenfold)):
            assert torch.ones(1).relu().item() == 10
        assert torch.ones(1).relu().item() == 1
    assert [warning.category for warning in heard] == [BypassWarning]
    (text,) = re.findall(r"```text\n(torch:Tensor.*)\n```", (DOCS / "messages.md").read_text())
    assert str(heard[0].message) == text


@pytest.mark.model
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_script_of_a_class_with_a_patched_method_is_refused(
    make_module: Callable[[str, str], ModuleType], reach: Any
) -> None:
    """TorchScript compiles the class from its source; a class compiled before is taken as compiled."""
    import torch

    models = make_module(f"scripted_models_{reach}", SCRIPTED)
    x = torch.ones(1)
    patch = hookpatch.wrap(f"{models.__name__}:Part.run", _tenfold, reach=reach)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for _ in range(2):
            with hookpatch.active(patch):
                assert models.Model()(x).item() == 20
                with pytest.raises(
                    BypassError, match=re.escape(f"torch.jit.script would go past the patch of {patch.address}")
                ):
                    torch.jit.script(models.Model())
            assert torch.jit.script(models.Model())(x).item() == 2


@pytest.mark.model
def test_captured_graph_keeps_what_it_captured() -> None:
    """No patch changes a captured graph: the graph holds the objects of the capture."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.addcmul(x, x, x)

    x = torch.ones(1)
    with hookpatch.active(hookpatch.wrap("torch:addcmul", _tenfold)):
        graphs: list[Any] = []
        torch._dynamo.reset()
        torch.compile(Model(), backend=lambda graph, inputs: graphs.append(graph) or graph.forward)(x)
    graph = graphs[0]
    with hookpatch.active(hookpatch.wrap("torch:addcmul", _tenfold, reach="everywhere")):
        assert torch.addcmul(x, x, x).item() == 20
        assert [result.item() for result in graph(x)] == [20]
        assert not [patch.place for patch in hookpatch.report() if patch.place and "eval_with_key" in patch.place]
    torch._dynamo.reset()


def _through(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs)


def _tenfold(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs) * 10
