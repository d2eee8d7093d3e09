"""Exports of a model with static and with dynamic axes differ in the nodes for the axes, and in no others."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: no build for this Python")

from exported import exported  # noqa: E402  # needs torch
from hookpatch_onnx._compare.compare import compare  # noqa: E402
from tiny_models import Masked, tiny  # noqa: E402

pytestmark = pytest.mark.model


@pytest.mark.parametrize("how", [{}, {"dynamo": False}], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("name", ["GPT-Neo", "Llama"])
def test_no_projection_is_taken_for_another(name: str, how: dict[str, Any]) -> None:
    """q, k and v look alike; each projection is matched by the module and by the name of the weight."""
    model, ids = Masked(tiny(name)).eval(), torch.arange(12).reshape(2, 6) + 3
    static, dynamic = (exported(model, ids, torch.ones_like(ids), dynamic=axes, **how) for axes in (0, 2))
    graph = compare(static, dynamic, ("static", "dynamic")).graphs[0]
    assert (len(graph.changed), len(graph.lost)) == (0, 0)
    assert graph.gained
    projections = [node for node in graph.before.nodes if node.op == "MatMul" and "_proj" in node.scope]
    assert len(projections) >= 2 * 4
    for node in projections:
        assert graph.after.nodes[graph.matches[node.index]].scope == node.scope
