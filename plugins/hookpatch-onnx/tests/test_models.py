"""rmsnorm_node and gelu_node on whole models of transformers: nodes before and after, numbers."""

from __future__ import annotations

import numpy
import pytest
import torch
from exported import exported, ops, ran
from tiny_models import Logits, tiny

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
