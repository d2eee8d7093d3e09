"""torch.fx reads the parameters of a patched function, and traces the patch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import hookpatch
from hookpatch.errors import BypassError

pytestmark = pytest.mark.model

VENDOR = """
    import functools
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, by: float = 2.0, *, plus=1.0): return x * by + plus

    class Collects(torch.nn.Module):
        def forward(self, *xs): return xs[0] * 2.0

    class Child(Net): pass

    def function(x, /, by=2.0): return x * by

    def decorated(function):
        @functools.wraps(function)
        def outer(*args): return function(*args)
        return outer
"""


@pytest.fixture
def vendor(make_module: Callable[[str, str], ModuleType]) -> ModuleType:
    return make_module("vendor", VENDOR)


def hundred_more(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return wrapped(*args, **kwargs) + 100


def inputs(graph: Any) -> list[tuple[str, Any]]:
    return [(node.name, node.args) for node in graph.graph.nodes if node.op == "placeholder"]


@pytest.mark.parametrize("scope", ["process", "task"])
@pytest.mark.parametrize("reach", ["slot", "everywhere"])
@pytest.mark.parametrize("name", ["Net.forward", "Child.forward", "function"])
def test_inputs_have_the_names_and_defaults_of_the_original(
    vendor: ModuleType, name: str, reach: str, scope: Any
) -> None:
    """The graph has the patch, and keeps the patch after the end; a graph traced then has no patch."""
    import torch
    from torch.fx import symbolic_trace

    root = vendor.function if name == "function" else vars(vendor)[name.partition(".")[0]]()
    unpatched = symbolic_trace(root)
    patch = hookpatch.wrap(f"vendor:{name}", hundred_more, reach=reach)  # type: ignore[arg-type]
    with hookpatch.active(patch, scope=scope):
        root = vendor.function if name == "function" else root
        graph = symbolic_trace(root)
    inputs = [
        [(node.name, node.args) for node in traced.graph.nodes if node.op == "placeholder"]
        for traced in (graph, unpatched)
    ]
    assert inputs[0] == inputs[1]
    x = torch.ones(2)
    for arguments in ((x,), (x, 5.0)):
        assert torch.equal(graph(*arguments), unpatched(*arguments) + 100)
    again = symbolic_trace(vendor.function if name == "function" else root)
    assert torch.equal(again(x), unpatched(x))


def test_arguments_that_are_given_are_in_the_graph(vendor: ModuleType) -> None:
    """The graph has arguments given by ``inject`` or by ``concrete_args``."""
    import torch
    from torch.fx import symbolic_trace

    x = torch.ones(2)
    with hookpatch.active(hookpatch.inject("vendor:Net.forward", by=7.0)):
        assert torch.equal(symbolic_trace(vendor.Net())(x), x * 8)
    with hookpatch.active(hookpatch.wrap("vendor:Net.forward", hundred_more)):
        assert torch.equal(symbolic_trace(vendor.Net(), {"by": 3.0})(x, 3.0), x * 104)


def test_wrapper_that_others_put_around_the_patch(vendor: ModuleType) -> None:
    import torch
    from torch.fx import symbolic_trace

    with hookpatch.active(hookpatch.wrap("vendor:function", hundred_more)):
        graph = symbolic_trace(vendor.decorated(vendor.function))
    assert [name for name, _ in inputs(graph)] == ["x", "by"]
    assert torch.equal(graph(torch.ones(2)), torch.full((2,), 102.0))


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_patched_function_that_collects_arguments_is_refused(vendor: ModuleType, reach: Any) -> None:
    from torch.fx import symbolic_trace

    patch = hookpatch.wrap("vendor:Collects.forward", hundred_more, reach=reach)
    with hookpatch.active(patch), pytest.raises(BypassError) as raised:
        symbolic_trace(vendor.Collects())
    assert str(raised.value) == (
        "torch.fx.symbolic_trace would go past the patch of vendor:Collects.forward by hookpatch: the tracer passes "
        "collected arguments as one input; trace the function outside of the block"
    )
    assert "getitem" in symbolic_trace(vendor.Collects()).code


@pytest.mark.parametrize("verb", [hookpatch.wrap, hookpatch.replace, hookpatch.derive, hookpatch.inject])
def test_patch_of_one_model_is_refused_where_the_class_is_traced(vendor: ModuleType, verb: Any) -> None:
    """fx takes the method of the class, and would go past the patch of one object."""
    from torch.fx import symbolic_trace

    vendor.net, vendor.other = vendor.Net(), vendor.Net()
    change = {"by": 3.0} if verb is hookpatch.inject else {}
    given = {hookpatch.wrap: [hundred_more], hookpatch.replace: [abs], hookpatch.derive: [lambda original: abs]}
    with hookpatch.active(verb("vendor:net.forward", *given.get(verb, []), **change)):
        with pytest.raises(BypassError) as raised:
            symbolic_trace(vendor.net)
        assert inputs(symbolic_trace(vendor.other)) == inputs(symbolic_trace(vendor.Net()))
    assert str(raised.value) == (
        "torch.fx.symbolic_trace would go past the patch of vendor:net.forward by hookpatch: the tracer takes forward "
        "of the class, past the patch of this model; patch 'module:Class().forward' with of=, or trace the "
        "model outside of the block"
    )
    assert inputs(symbolic_trace(vendor.net)) == inputs(symbolic_trace(vendor.other))


@pytest.mark.parametrize("verb", [hookpatch.wrap, hookpatch.inject])
def test_patch_of_the_instances_of_one_model_is_traced(vendor: ModuleType, verb: Any) -> None:
    import torch
    from torch.fx import symbolic_trace

    net, other = vendor.Net(), vendor.Net()
    given, change = ([hundred_more], {}) if verb is hookpatch.wrap else ([], {"plus": 101.0})
    with hookpatch.active(verb("vendor:Net().forward", *given, of=net, **change)):
        assert torch.equal(symbolic_trace(net)(torch.ones(2)), torch.full((2,), 103.0))
        assert torch.equal(symbolic_trace(other)(torch.ones(2)), torch.full((2,), 3.0))


@pytest.mark.parametrize("reach", ["slot", "everywhere"])
def test_function_of_torch_runs_its_patch_once(reach: Any) -> None:
    """The code of a graph finds functions of torch by name, where the patch stands."""
    import torch
    from torch.fx import symbolic_trace

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.silu(x)

    x = torch.linspace(-2, 2, 5)
    expected = Net()(x) + 100
    with hookpatch.active(hookpatch.wrap("torch.nn.functional:silu", hundred_more, reach=reach)):
        graph = symbolic_trace(Net())
        assert torch.equal(graph(x), expected)
    assert torch.equal(graph(x), expected)
