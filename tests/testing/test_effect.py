"""effect(): a patch is compared under each of torch's ways to capture code; each difference is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch.errors import BypassWarning, SettingError, TargetNotFound
from hookpatch.testing import EffectFailed, EffectOf

pytestmark = pytest.mark.model

VENDOR = """
import torch
from torch import nn

def act(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x * by

class Net(nn.Module):
    def helper(self, x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return act(x, by)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": self.helper(x) + y}

def function(x: torch.Tensor) -> torch.Tensor:
    return act(x)
"""


@pytest.fixture
def vendor(make_module: Callable[..., ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def ones() -> Any:
    import torch

    return torch.ones(3)


def test_patch_is_right_or_a_product_in_each_mode(vendor: ModuleType, effect: EffectOf) -> None:
    """A module of two inputs; the table shows each mode and moment."""
    modes = ["eager", "compile fullgraph", "export", "jit.trace", "onnx torchscript"]
    patch = hookpatch.inject("vendor:act", by=7.0)
    result = effect(vendor.Net(), ones(), ones(), what=patch, modes=modes).check()
    assert (
        str(result)
        == """\
vendor:act: 14 right, 6 product
captured, called   before, inside  inside, inside  inside, after  after, after
eager              right           right           right          right
compile fullgraph  right           right           right          right
export             product         right           product        right
jit.trace          product         right           product        right
onnx torchscript   product         right           product        right"""
    )
    first = result.cells[0]
    assert (first.mode, first.captured, first.called, first.state, first.said) == (
        *("eager", "before", "inside"),
        *("right", None),
    )


@contextmanager
def by_hand(module: Any) -> Iterator[None]:
    """Set a method without hookpatch; compiled code does not see the new method."""
    original = module.Net.helper
    module.Net.helper = lambda self, x, by=2.0: module.act(x, 7.0)
    yield
    module.Net.helper = original


def test_patch_that_captured_code_passes_by_fails_with_the_table(vendor: ModuleType, effect: EffectOf) -> None:
    """The error names each silent cell, with the result."""
    with pytest.raises(EffectFailed) as caught:
        effect(
            vendor.Net(), ones(), ones(), what=hookpatch.enter("vendor", by_hand), modes=["eager", "compile"]
        ).check()
    text = str(caught.value)
    assert text.startswith(
        "2 of 8 cells are silent or broken\n"
        "silent: compile, captured before and called inside: it gives {'sum': [3.0, 3.0, 3.0]}\n"
        "silent: compile, captured inside and called inside: it gives {'sum': [3.0, 3.0, 3.0]}\n\n"
        "vendor: 6 right, 2 silent\n"
    )
    assert text.endswith("\ncompile           silent          silent          right          right")


def test_patch_that_torch_cannot_capture_is_broken(vendor: ModuleType, effect: EffectOf) -> None:
    """torch raises an error of its own, without the name of hookpatch; eager mode raises none."""

    def asks(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, by=7.0 if args[0].sum().item() > 0 else 2.0)

    result = effect(vendor.function, ones(), what=hookpatch.wrap("vendor:act", asks), modes=["export strict"])
    assert [cell.state for cell in result.cells] == ["product", "broken", "right"]
    with pytest.raises(EffectFailed, match=r"broken: export strict, captured inside and called inside: \w+Error: "):
        result.check()


def test_patch_that_torchscript_cannot_take_up_is_loud(vendor: ModuleType, effect: EffectOf) -> None:
    """An error of hookpatch is no failure: the error says that the patch has no effect in TorchScript."""
    patch = hookpatch.inject("vendor:Net.helper", by=7.0)
    result = effect(vendor.Net(), ones(), ones(), what=patch, modes=["jit.script"]).check()
    loud = [cell for cell in result.cells if cell.state == "loud"]
    assert [(cell.captured, cell.called) for cell in loud] == [("inside", "inside")]
    assert "by hookpatch" in str(loud[0].said)


def test_patch_that_warned_when_it_was_applied_is_loud(effect: EffectOf) -> None:
    """Every capture takes methods of Tensor for operators; hookpatch warns when the patch is applied."""
    patch = hookpatch.wrap("torch:Tensor.relu", lambda wrapped, x, args, kwargs: wrapped(*args, **kwargs) + 1)
    with pytest.warns(BypassWarning):
        result = effect(lambda x: x.relu(), ones(), what=patch, modes=["compile", "export strict"]).check()
    states = {(cell.captured, cell.called): cell.state for cell in result.cells}
    assert states["inside", "inside"] == "loud"
    assert states["after", "after"] == "right"


def test_modes_that_torch_cannot_do_unpatched_are_left_out_with_the_reason(
    vendor: ModuleType, effect: EffectOf, make_module: Callable[..., ModuleType]
) -> None:
    """TorchScript cannot compile a registry: effect() leaves jit.script out, and refuses jit.script by name."""
    vendor.table = {"act": vendor.act}  # type: ignore[attr-defined]

    def asks(x: Any) -> Any:
        return vendor.table["act"](x)

    patch = hookpatch.inject("vendor:table['act']", by=7.0)
    result = effect(asks, ones(), what=patch)
    assert {cell.mode for cell in result.cells} >= {"eager", "compile", "export", "export strict", "jit.trace"}
    assert [*result.left_out] == ["jit.script"]
    assert result.left_out["jit.script"].startswith("torch cannot capture it unpatched: ")
    assert f"\nnot tried: jit.script: {result.left_out['jit.script']}" in str(result)
    with pytest.raises(SettingError) as caught:
        effect(asks, ones(), what=patch, modes="jit.script")
    assert str(caught.value).startswith(
        "effect(): mode 'jit.script' was asked for, and cannot be tried: torch cannot capture it unpatched: "
    )


def test_session_with_options_of_its_own_is_opened_anew_for_each_mode(vendor: ModuleType, effect: EffectOf) -> None:
    """effect() takes a session with options or a scope, and leaves the session unopened."""
    session = hookpatch.active(hookpatch.inject("vendor:act", by=7.0), scope="task")
    assert {cell.state for cell in effect(vendor.function, ones(), what=session, modes=["compile"]).cells} == {"right"}
    with session:
        pass


def test_what_could_tell_nothing_is_refused(vendor: ModuleType, effect: EffectOf) -> None:
    """Refuse a patch without an effect, a model with random results, an unknown mode, an applied target."""
    import torch

    def refused(model: Any, declaration: Any, **settings: Any) -> str:
        with pytest.raises(SettingError) as caught:
            effect(model, ones(), what=declaration, **settings)
        return str(caught.value)

    patch = hookpatch.inject("vendor:act", by=7.0)
    assert refused(vendor.function, hookpatch.inject("vendor:act", by=2.0)) == (
        "effect(): the patch changes no number of the model in eager mode, so no mode could be compared; "
        "vendor:act is applied"
    )
    assert refused(lambda x: vendor.act(x) + torch.rand(3), patch) == (
        "effect(): the model gives other numbers at each call; put it into eval()"
    )
    assert refused(vendor.function, patch, modes=["exports"]) == (
        "effect(): no mode 'exports'; did you mean 'export'? there are eager, compile, compile fullgraph, inductor, "
        "export, export strict, jit.trace, jit.script, fx, make_fx, onnx, onnx torchscript, cuda graph, "
        "inductor cuda graphs"
    )
    with pytest.raises(TargetNotFound):
        effect(vendor.function, ones(), what=hookpatch.inject("vendor:act.none", by=7.0))
