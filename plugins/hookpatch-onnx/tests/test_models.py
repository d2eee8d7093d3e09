"""rmsnorm_node and gelu_node on whole models of transformers: nodes before and after, numbers, unchanged parts."""

from __future__ import annotations

import numpy
import pytest
import torch
from exported import exported, ops, ran
from plain_graph import Outside
from tiny_models import Logits, Masked, tiny

import hookpatch

pytestmark = pytest.mark.model

COUNTED = ("SimplifiedLayerNormalization", "RMSNormalization", "Gelu", "Tanh")


@pytest.mark.parametrize(
    ("name", "opset", "before", "after"),
    [
        ("GPT-Neo", 20, (78, 0, 0, 0, 2), (64, 0, 0, 2, 0)),
        ("Gemma", 20, (136, 0, 0, 2, 0), (106, 5, 0, 2, 0)),
        ("Llama", 24, (107, 0, 0, 0, 0), (77, 0, 5, 0, 0)),
        ("T5", 20, (109, 0, 0, 0, 2), (65, 5, 0, 2, 0)),
    ],
)
def test_nodes_before_and_after_and_the_same_numbers(
    name: str, opset: int, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    """The counts match: all nodes, and the nodes of each kind added or removed by a plugin."""
    model, ids = Logits(tiny(name)).eval(), torch.arange(12).reshape(2, 6) + 3
    counts = []
    for plugins in ((), ("rmsnorm_node", "gelu_node")):
        with hookpatch.active(*plugins):
            proto = exported(model, ids, opset_version=opset)
        counts.append((len(proto.graph.node), *(ops(proto)[op] for op in COUNTED)))
        with torch.no_grad():
            numpy.testing.assert_allclose(ran(proto, ids)[0], model(ids).numpy(), rtol=1e-4, atol=1e-5)
    assert counts == [before, after]


@pytest.mark.parametrize("dynamic", [0, 2])
@pytest.mark.parametrize("name", ["GPT-Neo", "Gemma", "Llama", "T5"])
def test_torchscript_keeps_all_that_is_no_region(name: str, dynamic: int) -> None:
    """Outside of the regions, nodes, constants, static sizes and axes named by a user do not change."""
    model, ids = Masked(tiny(name)).eval(), torch.arange(12).reshape(2, 6) + 3
    args, how = (ids, torch.ones_like(ids)), {"opset_version": 20, "dynamo": False, "dynamic": dynamic}
    plain = exported(model, *args, **how)
    for plugins, kinds in (
        (["rmsnorm_node"], ("Norm",)),
        (["rmsnorm_node", "gelu_node"], ("Norm", "NewGELUActivation")),
    ):
        with hookpatch.active(*plugins):
            changed = exported(model, *args, **how)
        parts = [part for part, module in model.named_modules() if type(module).__name__.endswith(kinds)]
        assert len(changed.graph.node) <= len(plain.graph.node)
        assert Outside(plain, changed, parts).differences() == []
    numpy.testing.assert_allclose(ran(changed, *args)[0], ran(plain, *args)[0], rtol=1e-4, atol=1e-5)


def test_the_comparison_sees_a_difference() -> None:
    """A dynamic axis, a changed weight, another constant, another attribute."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.number, self.dim = torch.nn.Linear(4, 4), 2.0, -1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.linear(x) * self.number, self.dim)

    net, x = Net(), torch.randn(2, 3, 4)
    plain = exported(net, x, dynamo=False)

    def differences(dynamic: int = 0, parts: tuple[str, ...] = ()) -> list[str]:
        return Outside(plain, exported(net, x, dynamo=False, dynamic=dynamic), parts).differences()

    assert differences() == []
    assert differences(dynamic=1) == ["changed: inputs", "changed: output 8"]
    net.number = 3.0
    assert differences() == ["changed: /Mul"]
    net.number, net.dim = 2.0, 0
    assert "changed: /Softmax" in differences()
    net.dim = -1
    net.linear.weight.data.add_(1)
    assert differences() == ["changed: /linear/MatMul"]
