"""torch's captures see the edited function: right in each mode, before, inside and after."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import pytest

import hookpatch

pytestmark = [pytest.mark.model, pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]

VENDOR: Final = """
    import torch

    def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        y = x * by
        return y

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return scaled(x)

    class Own(torch.nn.Module):
        def helper(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2.0
            return y

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.helper(x)
    """
TARGETS: Final = {  # the name, the piece, the new piece; and the model
    "function": (":scaled", "x * by", "x * by * 5", "Net"),
    "default": (":scaled", "2.0", "10.0", "Net"),
    "method": (":Own.helper", "y = x * 2.0", "y = x * 10.0", "Own"),
}


_numbers: Final = itertools.count()


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    # A new name each time: Dynamo keeps traced modules by their names.
    return make_module(f"captured_{next(_numbers)}", VENDOR)


def _captures() -> dict[str, Callable[[Any, Any], Any]]:
    import torch

    return {
        "eager": lambda model, x: model,
        "compile": lambda model, x: torch.compile(model, backend="eager", fullgraph=True),
        "export": lambda model, x: torch.export.export(model, (x,)).module(),
        "export strict": lambda model, x: torch.export.export(model, (x,), strict=True).module(),
        "trace": lambda model, x: torch.jit.trace(model, (x,)),
        "script": lambda model, x: torch.jit.script(model),
        "fx": lambda model, x: torch.fx.symbolic_trace(model),
    }


MODES: Final = ("eager", "compile", "export", "export strict", "trace", "script", "fx")
KEEPS: Final = ("export", "export strict", "trace", "script", "fx")  # a product keeps the values of the capture


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["function", "default", "method"])
def test_edit_holds_in_what_is_captured(vendor: ModuleType, target: str, mode: str, reach: Any) -> None:
    import torch

    address, old, new, name = TARGETS[target]
    x, model, capture = torch.ones(2), getattr(vendor, name)(), _captures()[mode]
    before = capture(model, x)
    assert before(x).tolist() == [2.0, 2.0]
    with hookpatch.active(hookpatch.edit(vendor.__name__ + address, old, new, reach=reach)):
        inside = capture(getattr(vendor, name)(), x)
        assert inside(x).tolist() == [10.0, 10.0]
        assert before(x).tolist() == ([2.0, 2.0] if mode in KEEPS else [10.0, 10.0])
    if mode not in KEEPS:
        assert inside(x).tolist() == [2.0, 2.0]
    assert before(x).tolist() == [2.0, 2.0]
    assert capture(getattr(vendor, name)(), x)(x).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_a_function_of_torch_itself(vendor: ModuleType, reach: Any) -> None:
    import torch

    x = -torch.ones(2)
    edit = hookpatch.edit(
        "torch.nn.functional:leaky_relu", "negative_slope)", "negative_slope * 100)", count=2, reach=reach
    )
    with hookpatch.active(edit):
        call = torch.compile(lambda x: torch.nn.functional.leaky_relu(x), backend="eager", fullgraph=True)
        assert call(x).tolist() == torch.nn.functional.leaky_relu(x).tolist() == [-1.0, -1.0]
    assert call(x).tolist() == torch.nn.functional.leaky_relu(x).tolist() != [-1.0, -1.0]
