"""gelu_node turns each written-out tanh-approximated GELU into a Gelu node, and leaves other activations."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from exported import attributes, exported, nodes, ops, ran
from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx.errors import NodeError
from transformers.activations import ACT2FN
from transformers.models.bloom.modeling_bloom import BloomGelu

import hookpatch

pytestmark = pytest.mark.model

TANH = ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "gelu_pytorch_tanh")
OTHERS = ("gelu", "gelu_python", "gelu_10", "quick_gelu", "silu", "relu2")


class Activations(torch.nn.Module):
    """An activation of each name, between float32 inputs and outputs."""

    def __init__(self, names: tuple[str, ...], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.made = torch.nn.ModuleList([ACT2FN[name] for name in names])
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.to(self.dtype)
        return tuple(gelu(x).float() for gelu in self.made)


EXPORTS: dict[str, dict[str, Any]] = {
    "dynamo 20": {"opset_version": 20},
    "dynamo 24, not optimized": {"opset_version": 24, "optimize": False},
    "torchscript 20": {"opset_version": 20, "dynamo": False},
}


def test_without_the_plugin_it_is_written_out() -> None:
    """Without the plugin torch recognizes only torch's own gelu, and exports an equal formula as written."""
    assert ops(exported(Activations(("gelu_new",)), torch.randn(2, 8))) == {"Pow": 1, "Mul": 4, "Add": 2, "Tanh": 1}


@pytest.mark.parametrize("how", EXPORTS)
def test_each_is_one_node_and_computes_the_same(how: str) -> None:
    """A model made before the block computes the same for several shapes, and far out where tanh saturates."""
    net = Activations(TANH)
    with hookpatch.active("gelu_node"):
        model = exported(net, torch.randn(2, 8), dynamic=2, **EXPORTS[how])
    assert ops(model)["Gelu"] == len(TANH)
    assert set(ops(model)) <= {"Gelu", "Cast"}  # TorchScript's exporter writes casts from float32 to float32
    assert {attributes(node)["approximate"] for node in nodes(model, "Gelu")} == {b"tanh"}
    for x in (torch.randn(2, 8), torch.linspace(-30, 30, 300).reshape(3, 100), torch.zeros(1, 1)):
        for name, y, wanted in zip(TANH, ran(model, x), net(x), strict=True):
            numpy.testing.assert_allclose(y, wanted.detach().numpy(), rtol=1e-5, atol=2e-6, err_msg=name)


def test_half_precision_computes_the_same_as_torchs_own_gelu() -> None:
    """Written-out formulas round after each step: the node is nearer to torch's own gelu."""
    net, x = Activations(TANH, torch.float16), torch.linspace(-8, 8, 400).reshape(4, 100)
    with hookpatch.active("gelu_node"):
        model = exported(net, x)
    assert ops(model)["Gelu"] == len(TANH)
    wanted = torch.nn.functional.gelu(x.half(), approximate="tanh").float().numpy()
    for name, y, eager in zip(TANH, ran(model, x), net(x), strict=True):
        numpy.testing.assert_allclose(y, wanted, rtol=2e-3, atol=2e-4, err_msg=name)
        numpy.testing.assert_allclose(y, eager.numpy(), rtol=2e-2, atol=8e-3, err_msg=name)


def test_other_activations_are_as_they_were() -> None:
    """An exact GELU, a clipped GELU, QuickGELU and SiLU have the same graph with and without the plugin."""
    net, x = Activations(OTHERS), torch.randn(2, 8)
    plain = exported(net, x)
    with hookpatch.active("gelu_node"):
        model = exported(net, x)
    assert [(node.op_type, attributes(node).get("approximate")) for node in model.graph.node] == [
        (node.op_type, attributes(node).get("approximate")) for node in plain.graph.node
    ]
    assert b"tanh" not in {attributes(node).get("approximate") for node in nodes(model, "Gelu")}


class Mine(torch.nn.Module):
    """A user's own form of a GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = 0.7978845608 * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))


class Scaled(Mine):
    """Nearly a GELU: the module multiplies by another number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.001 * super().forward(x)


class Counting(Mine):
    """A GELU with a counter of calls."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


def test_a_class_outside_of_the_registry_is_found() -> None:
    """The computation decides, not the name or the home of the class; the plugin calls only a copy of a module."""
    net, x = torch.nn.Sequential(Mine(), BloomGelu(), Counting(), Scaled()).eval(), torch.randn(2, 8)
    with hookpatch.active("gelu_node"):
        model = exported(net, x)
    assert (ops(model)["Gelu"], ops(model)["Tanh"]) == (3, 1)
    assert net[2].calls == 1
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), rtol=1e-5, atol=2e-6)


class Flexible(Mine):
    """A GELU that also takes a bias, and on demand returns its input, too."""

    def __init__(self) -> None:
        super().__init__()
        self.returns_both, self.calls = False, 0

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None, as_dict: bool = False) -> Any:
        self.calls += 1
        y = super().forward(x if bias is None else x + bias) * (1 if self.calls % 7 else 9)
        return {"y": y} if as_dict else (x, y) if self.returns_both else y


class CallsInSeveralWays(torch.nn.Module):
    """Calls a GELU with one tensor, with two, by keyword, and for two results, a dict and at last another number."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.bias = Flexible(), torch.nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(x * 2) + self.act(x, self.bias) + self.act(x=x, bias=None) + self.act(bias=self.bias, x=x * 3)
        self.act.returns_both = True
        both = self.act(x * 4)
        self.act.returns_both = False
        return y + sum(both) + self.act(x, as_dict=True)["y"] + self.act(x * 5)


@pytest.mark.parametrize("how", EXPORTS)
def test_a_call_in_another_way_stays_as_it_is(how: str) -> None:
    """Only a call with one tensor and one result becomes a node; the receipt names the others."""
    net, x = CallsInSeveralWays().eval(), torch.randn(2, 8)
    with hookpatch.active("gelu_node") as session:
        model = exported(net, x, **EXPORTS[how])
    assert (ops(model)["Gelu"], ops(model)["Tanh"]) == (2, 5)
    notes = [note for patch in session.report() for note in patch.notes]
    assert notes[-1].startswith("2 of 7 tanh-approximated GELUs became nodes; 5 not: act return")
    net.act.calls = 0
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(model, x)[0], net(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", EXPORTS)
def test_a_gelu_that_is_one_node_already_is_left_alone(how: str) -> None:
    """Torch's own: in a module of transformers, of torch, and as a function."""
    net, x = torch.nn.Sequential(ACT2FN["gelu_pytorch_tanh"], torch.nn.GELU("tanh")), torch.randn(2, 8)
    with hookpatch.active("gelu_node"):
        model = exported(net, x, **EXPORTS[how])
    assert ops(model) == {"Gelu": 2}
    assert not [prop.key for node in model.graph.node for prop in node.metadata_props if prop.key == MADE_BY]


def test_opset_too_low_is_one_clear_error_if_there_is_such_a_gelu() -> None:
    """A GELU below opset 20 is refused before the export. A model without a GELU is exported as ever."""
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), ACT2FN["gelu_new"])
    with hookpatch.active("gelu_node"):
        for options in ({"opset_version": 18}, {"opset_version": 18, "dynamo": False}):
            with pytest.raises(NodeError) as caught:
                exported(net, torch.randn(2, 8), **options)
            assert str(caught.value) == (
                "plugin 'gelu_node': 1 cannot be a Gelu node at opset 18; ONNX has it from opset 20 on: export with "
                "opset_version=20 or higher, or without this plugin"
            )
        assert ops(exported(net[:1], torch.randn(2, 8), opset_version=18)) == {"Gemm": 1}
