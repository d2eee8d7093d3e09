"""Calls are counted where a session asks for it: by mode, in every thread, and not in compiled code."""

from __future__ import annotations

import contextvars
import json
import subprocess
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, Final

import pytest
from environments import Environment
from environments import hookpatch as command

import hookpatch
from hookpatch.errors import NeverCalledWarning, RestoreError

SOURCE: Final = """
def f(x): return x
def g(x, by=1): return x * by
value = 1
"""


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", SOURCE)


def _more(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs) + 100


def _calls(session: hookpatch.Session) -> list[dict[str, int] | None]:
    return [patch.calls for patch in session.report() if patch.plugin != "torch"]


# --- in Python


def test_each_call_of_each_layer_is_counted(vendor: ModuleType) -> None:
    """Calls of wrappers are counted, calls of replaced values are not. The report has the count in words."""
    patches = [
        hookpatch.wrap("vendor:f", _more),
        hookpatch.inject("vendor:g", by=3),
        hookpatch.replace("vendor:value", 2),
    ]
    with hookpatch.active(*patches, hookpatch.wrap("vendor:f", _more), count=True) as session:
        assert (vendor.f(1), vendor.f(2), vendor.g(2)) == (201, 202, 6)
        assert _calls(session) == [{"eager": 2}, {"eager": 1}, None, {"eager": 2}]
        assert "          calls   2 made" in str(session.report()).splitlines()
        assert json.loads(session.report().to_json())["processes"][0]["patches"][0]["calls"] == {"eager": 2}
    assert vendor.f(1) == 1
    assert _calls(session) == [{"eager": 2}, {"eager": 1}, None, {"eager": 2}]


def test_nothing_is_counted_unasked(vendor: ModuleType) -> None:
    """Without count=True the given wrapper runs directly."""
    with hookpatch.active(hookpatch.wrap("vendor:f", _more)) as session:
        (link,) = (cell.cell_contents for cell in vendor.f.__closure__)
        assert link[0] is _more
        assert vendor.f(1) == 101
        assert _calls(session) == [None]
        assert "calls" not in str(session.report())


def test_no_call_is_lost_between_threads(vendor: ModuleType) -> None:
    """Eight threads, thousands of calls, the exact number."""
    with hookpatch.active(hookpatch.wrap("vendor:f", _more), count=True) as session:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: [vendor.f(1) for _ in range(2_000)], range(8)))
        assert _calls(session) == [{"eager": 16_000}]


def test_neighbours_of_a_task_are_not_counted(vendor: ModuleType) -> None:
    """Neighbours of a task pass through the patch uncounted."""
    with hookpatch.active(hookpatch.wrap("vendor:f", _more), scope="task", count=True) as session:
        assert (vendor.f(1), contextvars.Context().run(vendor.f, 1)) == (101, 1)
        assert _calls(session)[0] == {"eager": 1}


def test_decorated_function_counts_anew(vendor: ModuleType) -> None:
    """Each call of a decorated function counts anew."""

    @hookpatch.active(hookpatch.wrap("vendor:f", _more), count=True)
    def calls(really: bool) -> int | None:
        return vendor.f(1) if really else None

    assert calls(True) == 101
    with pytest.warns(NeverCalledWarning, match="^vendor:f of a patch given to active.*: applied, never called$"):
        calls(False)


# --- never called


def test_required_patch_that_was_never_called_is_named(vendor: ModuleType) -> None:
    """At the end, and each but once; what is not required, or is not around calls, need not be."""
    patches = [
        hookpatch.wrap("vendor:f", _more),
        hookpatch.inject("vendor:g", by=3),
        hookpatch.wrap("vendor:g", _more, required=False),
        hookpatch.replace("vendor:value", 2),
        hookpatch.wrap("never_imported:f", _more),
    ]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hookpatch.active(*patches, count=True):
            vendor.f(1)
        with hookpatch.active(*patches):
            pass
    assert [(warning.category, str(warning.message), warning.filename) for warning in heard] == [
        (NeverCalledWarning, "vendor:g of a patch given to active(): applied, never called", __file__)
    ]


def test_one_place_of_many_is_enough(make_module: Callable[[str, str], ModuleType]) -> None:
    """A C function held in two modules counts when called through either."""
    first = make_module("first", "from math import sqrt\n")
    make_module("second", "from math import sqrt\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hookpatch.active(hookpatch.wrap("math:sqrt", _more, reach="everywhere"), count=True):
            assert first.sqrt(4) == 102


def test_block_that_raises_tells_nothing_of_it(vendor: ModuleType) -> None:
    """A block that raises gets no warning about calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError), hookpatch.active(hookpatch.wrap("vendor:f", _more), count=True):
            raise KeyError


def test_warning_made_an_error_comes_after_the_end(vendor: ModuleType) -> None:
    """A warning turned into an error comes after the restore."""
    session = hookpatch.active(hookpatch.wrap("vendor:f", _more), count=True).open()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NeverCalledWarning):
            session.close()
    assert vendor.f(1) == 1
    assert not issubclass(NeverCalledWarning, RestoreError)


# --- the command

PLUGIN: Final = '''
    """Count me."""
    import hookpatch

    @hookpatch.hookimpl
    def hookpatch_patches():
        yield hookpatch.wrap("vendor:f", lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs))
        yield hookpatch.inject("vendor:g", by=3)
'''


def test_command_tells_what_was_called_and_what_was_not(environment: Environment) -> None:
    """The counts come on stderr at the end of the process, and in the JSON report."""
    environment.add_plugin("counted", PLUGIN)
    (environment.folder / "vendor.py").write_text(SOURCE)
    code = "import os, vendor; vendor.f(1); vendor.f(2); print(os.getpid())"
    completed: subprocess.CompletedProcess[str] = command(
        environment, "run", "-p", "counted", "--count", "--report", "reports", "-c", code
    )
    start = f"hookpatch[{completed.stdout.strip()}]"
    assert completed.stderr.splitlines() == [
        f"{start}: vendor:f (counted): 2 made",
        f"{start}: warning: vendor:g of plugin 'counted' from counted-dist 1.0: applied, never called "
        "[hookpatch explain NeverCalledWarning]",
    ]
    (report,) = (environment.folder / "reports").glob("*.json")
    assert [patch["calls"] for patch in json.loads(report.read_text())["processes"][0]["patches"]] == [{"eager": 2}, {}]
    assert command(environment, "run", "-p", "counted", "-c", code).stderr == ""


# --- captured calls

MODELS: Final = """
import torch
from torch import nn

def act(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by

class Net(nn.Module):
    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.helper(act(x))
"""


@pytest.mark.model
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_captured_calls_are_counted_by_what_captured_them(
    make_module: Callable[[str, str], ModuleType], reach: Any
) -> None:
    """Counted once for each capture, in a full graph without a break or recompilation."""
    import torch
    from torch._dynamo.testing import CompileCounter

    models = make_module(f"counted_models_{reach}", MODELS)
    torch._dynamo.reset()
    counter = CompileCounter()
    x = torch.ones(2)
    patches = [hookpatch.wrap(f"{models.__name__}:{name}", _more, reach=reach) for name in ("act", "Net.helper")]
    with hookpatch.active(*patches, count=True) as session:
        compiled = torch.compile(models.Net(), backend=counter, fullgraph=True)
        assert [compiled(x)[0].item() for _ in range(5)] == [203] * 5
        assert counter.frame_count == 1
        assert _calls(session) == [{"compile": 1}] * 2
        torch.export.export(models.Net(), (x,), strict=False)
        torch.export.export(models.Net(), (x,), strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.jit.trace(models.Net(), x, check_trace=False)
            scripted = torch.jit.script(models.Net())
        assert _calls(session) == [{"compile": 1, "export": 2, "trace": 1, "script": 1}] * 2
        assert scripted(x)[0].item() == models.Net()(x)[0].item() == 203
        assert _calls(session) == [{"eager": 2, "compile": 1, "export": 2, "trace": 1, "script": 1}] * 2
    torch._dynamo.reset()
