"""Each rewrite is compared with torch for the inputs of the export; each changed model passes ONNX's checker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import onnxscript
import pytest
import torch
from exported import exported, nodes, ops, ran
from hookpatch_onnx.errors import CheckerWarning, NodeError
from test_receipt import EXPORTS, STRICT, WIDTH, Counting, Function, Norm, notes
from tiny_models import Masked, tiny

import hookpatch

pytestmark = pytest.mark.model


class Wrong(Norm):
    """An RMSNorm for the inputs of a trial, but not for larger inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.clamp(-1e12, 1e12))


class WrongGelu(Function):
    """A GELU for the inputs of a trial, but not for larger inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.clamp(-1e12, 1e12))


class Scaled(torch.nn.Module):
    """Two parts: the second computes a wrong result for scaled inputs."""

    def __init__(self, good: torch.nn.Module, wrong: torch.nn.Module, factor: float) -> None:
        super().__init__()
        self.good, self.wrong, self.factor = good, wrong, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.good(x) + self.wrong(x * self.factor)


CASES: dict[str, tuple[Any, Any, float, str]] = {
    "rmsnorm_node": (Norm, Wrong, 1e14, "SimplifiedLayerNormalization"),
    "gelu_node": (Function, WrongGelu, 1e14, "Gelu"),
}


class ClampedNorm(Norm):
    """Not the formula above 100, in any dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.clamp(-100, 100))


class CappedNorm(Norm):
    """Not the formula for a large mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True).clamp(max=1e4) + 1e-6)


class ClampedGelu(Function):
    """Not the formula above 50."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.clamp(-50, 50))


class WithResidual(Norm):
    """A norm that returns the sum, too."""

    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x + 1), x + 1


class First(torch.nn.Module):
    """A model with a part of which the first result counts."""

    def __init__(self, part: torch.nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.part(x)
        return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("part", [ClampedNorm, CappedNorm, ClampedGelu, WithResidual])
def test_a_part_that_is_wrong_for_large_inputs_stays(part: Any, dtype: torch.dtype, how: str) -> None:
    """Small inputs at the export do not hide a clamp; a result of two tensors does not end the export."""
    net, x = First(part()).eval().to(dtype), torch.randn(2, 3, WIDTH).to(dtype)
    with hookpatch.active("rmsnorm_node", "gelu_node") as session:
        model = exported(net, x, **EXPORTS[how])
    assert not {"SimplifiedLayerNormalization", "Gelu"} & ops(model).keys()
    assert any(" 1 not: part is written out there" in note for note in notes(session))
    if dtype == torch.float32:  # in half precision onnxruntime squares larger numbers than torch
        with torch.no_grad():
            numpy.testing.assert_allclose(ran(model, x * 200)[0], net(x * 200).numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("plugin", CASES)
def test_a_part_that_is_wrong_for_its_own_inputs_stays(plugin: str, how: str) -> None:
    """The receipt names the wrong part, and the model computes the same as torch; strict=true raises an error."""
    good, wrong, factor, op = CASES[plugin]
    net, x = Scaled(good(), wrong(), factor).eval(), torch.randn(2, 3, WIDTH)
    with hookpatch.active(plugin) as session:
        model = exported(net, x, **EXPORTS[how])
    assert ops(model)[op] == 1
    *_, note = notes(session)
    assert note.startswith("1 of 2 ")
    assert "1 not: wrong differs from the formula for the inputs of this layer: " in note
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(model, x)[0], net(x).numpy(), rtol=1e-5, atol=1e-5)
    with hookpatch.active(plugin, options={plugin: STRICT[plugin]}), pytest.raises(NodeError, match="wrong is no node"):
        exported(net, x, **EXPORTS[how])


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("plugin", CASES)
def test_the_same_part_with_other_inputs_is_a_node(plugin: str, how: str) -> None:
    """The inputs decide: for smaller inputs the same part becomes a node."""
    good, wrong, _, op = CASES[plugin]
    with hookpatch.active(plugin, options={plugin: STRICT[plugin]}):
        model = exported(Scaled(good(), wrong(), 1.0), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    assert ops(model)[op] == 2


def test_the_proof_leaves_the_buffers_of_a_model_alone() -> None:
    """A model with a counter of calls in a buffer has counted no call after the export."""

    net = Counting()
    with hookpatch.active("rmsnorm_node"):
        exported(net, torch.randn(2, 3, WIDTH))
    assert float(net.calls) == 0


def test_a_proof_ends_with_the_last_region() -> None:
    """The last region is compared, and no operation after the last region is run."""
    ran_after = []

    @torch.library.custom_op("hookpatch_tests::after", mutates_args=())
    def after(x: torch.Tensor) -> torch.Tensor:
        ran_after.append(1)
        return x.clone()

    after.register_fake(torch.empty_like)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.wrong = Norm(), Wrong()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = after(self.wrong(self.norm(x) * 1e14))
            return result

    translation = {torch.ops.hookpatch_tests.after.default: _identity}
    with hookpatch.active("rmsnorm_node") as session:
        exported(Net(), torch.randn(2, 3, WIDTH), opset_version=20, custom_translation_table=translation)
    assert "1 not: wrong differs from the formula" in notes(session)[-1]
    assert ran_after == []


def _identity(x: Any) -> Any:
    return onnxscript.opset20.Identity(x)


@pytest.mark.parametrize(("name", "opset"), [("Gemma", 23), ("Llama", 24), ("GPT-Neo", 20)])
def test_models_pass_the_checker(name: str, opset: int) -> None:
    """ONNX's checker accepts the models, and the receipt does not mention the checker."""
    ids = torch.arange(12).reshape(2, 6) + 3
    with hookpatch.active("rmsnorm_node", "gelu_node") as session:
        model = exported(Masked(tiny(name)), ids, torch.ones_like(ids), opset_version=opset)
    onnx.checker.check_model(model)
    last = [patch.notes[-1] for patch in session.report() if patch.notes]
    assert len(last) == 2
    assert not any("onnx.checker" in note for note in last)


@pytest.mark.parametrize("how", EXPORTS)
def test_a_norm_below_opset_23_is_refused_and_said(how: str) -> None:
    """ONNX's checker refuses the model with the words of the receipt; with a custom domain the checker accepts."""
    refusal = "No Op registered for SimplifiedLayerNormalization with domain_version of 20"
    with hookpatch.active("rmsnorm_node") as session:
        model = exported(Norm(), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    with pytest.raises(onnx.checker.ValidationError, match=refusal):
        onnx.checker.check_model(model)
    assert refusal in notes(session)[-1]
    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {"domain": "acme"}}) as session:
        model = exported(Norm(), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    onnx.checker.check_model(model)
    assert "refuses" not in notes(session)[-1]


class Unknown(torch.autograd.Function):
    """Declares an operator unknown to ONNX."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("NoSuchOperator", x)


def test_a_declared_node_that_onnx_does_not_have_is_a_warning() -> None:
    """A warning names the operator; the model is written, since a runtime may have the operator."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = Unknown.apply(x)
            return result

    with hookpatch.active("symbolic_functions"), pytest.warns(CheckerWarning) as caught:
        model = exported(Net(), torch.randn(2, 3), opset_version=20)
    assert [str(warning.message) for warning in caught if issubclass(warning.category, CheckerWarning)] == [
        "plugin 'symbolic_functions': onnx.checker refuses NoSuchOperator at opset 20: No Op registered for "
        "NoSuchOperator with domain_version of 20"
    ]
    assert len(nodes(model, "NoSuchOperator")) == 1


def test_a_quantizer_inlines_a_body_as_the_receipt_says(tmp_path: Path) -> None:
    """onnxruntime's quant_pre_process takes a function with a body apart."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {"domain": "acme"}}) as session:
        model = exported(Norm(), torch.randn(2, 3, WIDTH), opset_version=20)
    assert "onnxruntime's quant_pre_process inlines the body of acme::RMSNormalization" in notes(session)[-1]
    assert ops(model)["acme::RMSNormalization"] == 1
    onnx.save(model, tmp_path / "a.onnx")
    quant_pre_process(str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"))
    assert "acme::RMSNormalization" not in ops(onnx.load(str(tmp_path / "b.onnx")))
