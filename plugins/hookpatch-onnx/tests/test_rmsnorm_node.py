"""rmsnorm_node turns each RMSNorm into a node with the numbers of torch."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

import numpy
import onnx
import pytest
import torch
import torch.onnx.verification
from exported import attributes, evaluated, exported, imports, nodes, ops, quiet, ran
from hookpatch_onnx._nodes.rmsnorm import rmsnorms
from hookpatch_onnx.errors import CapturedWarning, NodeError

import hookpatch
from hookpatch import errors

pytestmark = pytest.mark.model

WIDTH = 16


class HomeMade(torch.nn.Module):
    """An RMSNorm by computation alone, without the usual names."""

    def __init__(self) -> None:
        super().__init__()
        self.g = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5) * self.g


def of_transformers(family: str, name: str) -> torch.nn.Module:
    """Return the norm of a family of models."""
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    norm: torch.nn.Module = getattr(module, name)(WIDTH)
    return norm


def every_norm() -> dict[str, torch.nn.Module]:
    """Return the norms by name, with random weights."""
    torch.manual_seed(0)
    families = {"gemma": "Gemma", "gemma2": "Gemma2", "gemma3": "Gemma3", "llama": "Llama", "mistral": "Mistral"}
    families |= {"qwen2": "Qwen2", "qwen3": "Qwen3"}
    norms = {name: of_transformers(family, f"{name}RMSNorm") for family, name in families.items()}
    norms |= {"T5": of_transformers("t5", "T5LayerNorm"), "torch": torch.nn.RMSNorm(WIDTH)}
    norms |= {"torch, eps": torch.nn.RMSNorm(WIDTH, eps=1e-3), "home-made": HomeMade()}
    norms |= {"no weight": torch.nn.RMSNorm(WIDTH, elementwise_affine=False)}
    for norm in norms.values():
        for weight in norm.parameters():
            torch.nn.init.normal_(weight)
    return norms


class Norms(torch.nn.Module):
    """Normalizes an input with each norm, in some dtype, between float32 inputs and outputs."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(every_norm().values()).to(dtype)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x.to(self.dtype)
        return tuple(norm(x).float() for norm in self.norms)


EXPORTS: dict[str, dict[str, Any]] = {
    "dynamo 18": {"opset_version": 18},
    "dynamo 23": {"opset_version": 23},
    "dynamo 24, not optimized": {"opset_version": 24, "optimize": False},
    "torchscript 17": {"opset_version": 17, "dynamo": False},
}
OneNodeEach = Callable[[torch.dtype, str], onnx.ModelProto]
HALF = (torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def norms() -> dict[torch.dtype, Norms]:
    """Models by dtype, made before any block is entered."""
    return {dtype: Norms(dtype).eval() for dtype in (torch.float32, *HALF)}


@pytest.fixture(scope="module")
def one_node_each(norms: dict[torch.dtype, Norms]) -> OneNodeEach:
    """Return a function that exports a model with the plugin, each model once for all tests."""

    @functools.cache
    def export(dtype: torch.dtype, how: str) -> onnx.ModelProto:
        with hookpatch.active("rmsnorm_node"):
            return exported(norms[dtype], torch.randn(2, 5, WIDTH), dynamic=2, **EXPORTS[how])

    return export


@pytest.mark.parametrize(
    ("dtype", "how"),
    # onnxruntime cannot run RMSNormalization in bfloat16 on a CPU.
    [
        *((torch.float32, how) for how in EXPORTS),
        *((torch.float16, how) for how in ("dynamo 23", "torchscript 17")),
        (torch.bfloat16, "dynamo 18"),
    ],
)
def test_each_norm_is_one_node_and_computes_what_torch_does(
    norms: dict[torch.dtype, Norms], one_node_each: OneNodeEach, dtype: torch.dtype, how: str
) -> None:
    """A norm of any class is a node, at every opset, with both exporters, in each dtype, for several shapes."""
    net, options, model = norms[dtype], EXPORTS[how], one_node_each(dtype, how)
    op_type = "RMSNormalization" if options["opset_version"] >= 23 else "SimplifiedLayerNormalization"
    counts = ops(model)
    assert counts[op_type] == len(net.norms)
    assert set(counts) <= {op_type, "Cast"}
    assert imports(model) == {"": options["opset_version"]}
    for shape in ((2, 5, WIDTH), (1, 1, WIDTH), (3, 7, WIDTH)):
        x = torch.randn(shape) * 3
        for name, y, wanted in zip(every_norm(), ran(model, x), net(x), strict=True):
            # A single rounding in half precision; float32 sums in another order.
            eps = torch.finfo(dtype).eps * (8 if dtype == torch.float32 else 1)
            numpy.testing.assert_allclose(y, wanted.detach().numpy(), rtol=eps, atol=eps / 8, err_msg=name)


def test_opset_23_in_bfloat16_in_the_reference_evaluator(norms: dict[torch.dtype, Norms]) -> None:
    """ONNX's reference evaluator computes RMSNormalization in bfloat16 as torch does."""
    with hookpatch.active("rmsnorm_node"):
        model = exported(norms[torch.bfloat16], torch.randn(2, 5, WIDTH), opset_version=23)
    x = torch.randn(2, 5, WIDTH)
    eps = 2 * torch.finfo(torch.bfloat16).eps  # the evaluator rounds once more
    for name, y, wanted in zip(every_norm(), evaluated(model, x), norms[torch.bfloat16](x), strict=True):
        numpy.testing.assert_allclose(y, wanted.detach().numpy(), rtol=eps, atol=eps / 8, err_msg=name)


def test_casts_stand_where_torch_rounds(one_node_each: OneNodeEach) -> None:
    """Where torch rounds only the scaled result, the node computes in float32 between casts."""
    model = one_node_each(torch.float16, "dynamo 23")
    exact = {output for node in nodes(model, "Cast") for output in node.output if attributes(node)["to"] == 1}
    between = {
        name
        for name, node in zip(every_norm(), nodes(model, "RMSNormalization"), strict=True)
        if node.input[0] in exact
    }
    # The home-made norm squares in half precision: neither form is exact to the last bit.
    assert between - {"home-made"} == {"Gemma", "Gemma2", "Gemma3", "torch", "torch, eps", "no weight"}


def test_eps_and_scale_are_the_modules(norms: dict[torch.dtype, Norms], one_node_each: OneNodeEach) -> None:
    """The scale of Gemma is 1 + weight; eps is the number added by the module, also where no attribute holds eps."""
    model = one_node_each(torch.float32, "dynamo 23")
    norm_nodes = dict(zip(every_norm(), nodes(model, "RMSNormalization"), strict=True))
    eps = {name: attributes(node)["epsilon"] for name, node in norm_nodes.items()}
    assert eps["torch, eps"] == pytest.approx(1e-3)
    assert eps["home-made"] == pytest.approx(1e-5)
    assert eps["torch"] == pytest.approx(torch.finfo(torch.float32).eps)
    assert {attributes(node)["axis"] for node in norm_nodes.values()} == {-1}
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    used = {name for node in model.graph.node for name in node.input}
    assert set(weights) <= used  # no unused weight is left
    gemma = norms[torch.float32].norms[0].weight.detach().float().numpy()  # type: ignore[union-attr]  # Gemma has one
    numpy.testing.assert_allclose(weights[norm_nodes["Gemma"].input[1]].astype("f4"), 1 + gemma)


@pytest.mark.parametrize("how", ["dynamo 18", "torchscript 17"])
def test_node_of_ones_own_domain_has_a_body_that_runs(norms: dict[torch.dtype, Norms], how: str) -> None:
    """A single function serves all nodes, and runs in onnxruntime and in the reference evaluator."""
    net, options = norms[torch.float32], {"rmsnorm_node": {"domain": "acme.norms", "op_type": "RMS"}}
    with hookpatch.active("rmsnorm_node", options=options):
        model = exported(net, torch.randn(2, 5, WIDTH), dynamic=2, **EXPORTS[how])
    assert ops(model)["acme.norms::RMS"] == len(net.norms)
    assert imports(model) == {"": EXPORTS[how]["opset_version"], "acme.norms": 1}
    assert [(function.domain, function.name) for function in model.functions] == [("acme.norms", "RMS")]
    onnx.checker.check_model(model)
    x = torch.randn(3, 4, WIDTH)
    for y, reference, wanted in zip(ran(model, x), evaluated(model, x), net(x), strict=True):
        numpy.testing.assert_allclose(y, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
        numpy.testing.assert_allclose(reference, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_body_can_be_left_out_for_a_runtime_that_has_the_operator() -> None:
    """Without a body the node stands alone, in the version given by the caller."""
    options = {"rmsnorm_node": {"domain": "acme", "body": False}}
    with hookpatch.active("rmsnorm_node", options=options):
        model = exported(torch.nn.RMSNorm(WIDTH), torch.randn(2, WIDTH), custom_opsets={"acme": 3})
    assert ops(model) == {"acme::RMSNormalization": 1}
    assert (len(model.functions), imports(model)["acme"]) == (0, 3)


def test_several_axes_are_normalized_together() -> None:
    """torch.nn.RMSNorm((4, 8)) has axis -2, also in a custom domain."""
    norm, x = torch.nn.RMSNorm((4, 8), eps=1e-4), torch.randn(3, 4, 8)
    torch.nn.init.normal_(norm.weight)
    for options in ({}, {"domain": "acme"}):
        with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": options}):
            model = exported(norm, x, dynamic=1, opset_version=23)
        assert [attributes(node)["axis"] for node in nodes(model, "RMSNormalization")] == [-2]
        (y,) = ran(model, x[:2])
        numpy.testing.assert_allclose(y, norm(x[:2]).detach().numpy(), rtol=1e-5, atol=1e-6)


class ChannelsFirst(torch.nn.Module):
    """An RMSNorm for inputs of two axes; for images a norm over the channels, another axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(WIDTH)), 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.view(1, -1, *[1] * (x.dim() - 2))
        return weight * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + self.eps)


class Gated(torch.nn.Module):
    """An RMSNorm if called without a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(WIDTH)), 1e-6

    def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        if gate is not None:
            x = x * torch.sigmoid(gate)
        return torch.nn.functional.rms_norm(x, (WIDTH,), self.weight, self.eps)


def test_what_is_no_rmsnorm_is_left_alone() -> None:
    """A LayerNorm, a scale, a norm of rows and a call with a gate compute other numbers, and stay as exported."""

    class L2(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.ones(WIDTH)), 1e-6

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * x / torch.sqrt(x.pow(2).sum(-1, keepdim=True) + self.eps)

    modules = [torch.nn.LayerNorm(WIDTH, bias=False), torch.nn.PReLU(WIDTH), torch.nn.Linear(WIDTH, WIDTH), L2()]
    modules += [ChannelsFirst()]
    modules += [torch.nn.Embedding(4, WIDTH), torch.nn.Dropout(), torch.nn.BatchNorm1d(WIDTH), torch.nn.Identity()]
    assert [rmsnorms(module) for module in modules] == [{}] * len(modules)

    class TwoCalls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = Gated()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.norm(x), gate=x)

    model, x = TwoCalls(), torch.randn(2, WIDTH)
    with hookpatch.active("rmsnorm_node"):
        proto = exported(model, x)
    assert ops(proto)["SimplifiedLayerNormalization"] == 1
    assert ops(proto)["Sigmoid"] == 1
    numpy.testing.assert_allclose(ran(proto, x)[0], model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_looking_for_norms_changes_no_module_and_no_random_numbers() -> None:
    """The search calls a copy with separate weights."""
    norm = torch.nn.RMSNorm(WIDTH)
    before = torch.get_rng_state()
    assert set(rmsnorms(norm)) == {torch.float32, torch.float16, torch.bfloat16, torch.float64}
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(norm.weight, torch.ones(WIDTH))


def test_eager_is_unchanged_during_the_export_in_other_threads() -> None:
    """Only the thread of the export is patched, and the modules are unchanged afterwards."""
    norm, x = torch.nn.RMSNorm(WIDTH), torch.randn(2, WIDTH)
    wanted, results = norm(x).detach(), []

    class Watching(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=lambda: results.append(norm(x).detach()))
            thread.start()
            thread.join()
            return self.norm(value)

    with hookpatch.active("rmsnorm_node"):
        assert torch.equal(norm(x), wanted)
        # torch.export has other weights in the module meanwhile, for all threads; TorchScript's exporter has not.
        assert ops(exported(Watching(), x, dynamo=False)) == {"SimplifiedLayerNormalization": 1}
        assert "forward" not in vars(norm)
    assert len(results) == 1
    assert torch.equal(results[0], wanted)
    assert ops(exported(norm, x))["SimplifiedLayerNormalization"] == 0


def test_two_plugins_at_once_and_two_exports_in_one_block() -> None:
    """Two plugins share an export, and a second export equals the first."""
    norm, x = torch.nn.RMSNorm(WIDTH), torch.randn(2, WIDTH)
    with hookpatch.active("rmsnorm_node", "symbolic_functions"):
        first, second = exported(norm, x), exported(norm, x)
    assert ops(first) == ops(second) == {"SimplifiedLayerNormalization": 1}
    (metadata,) = ({prop.key: prop.value for prop in node.metadata_props} for node in first.graph.node)
    assert metadata["hookpatch.plugin"] == "rmsnorm_node"  # the node names the plugin and the module
    assert metadata["pkg.torch.onnx.class_hierarchy"] == "['torch.nn.modules.normalization.RMSNorm']"
    assert "end" not in metadata["pkg.torch.onnx.name_scopes"]


def test_verification_of_torch_finds_the_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    """torch.onnx.export(verify=True) runs the model in onnxruntime, beside the captured program."""
    with quiet(), hookpatch.active("rmsnorm_node"):
        program = torch.onnx.export(torch.nn.RMSNorm(WIDTH).eval(), (torch.randn(2, WIDTH),), verify=True)
        (checked,) = torch.onnx.verification.verify_onnx_program(program)
    assert checked.max_abs_diff < 1e-6
    assert "Verify output accuracy... ✅" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"op_type": "RMS"}, "'op_type' names an operator of one's own domain; give 'domain', too"),
        ({"domain": "acme", "op_type": ""}, "'op_type' names an operator of one's own domain; give 'domain', too"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, str], problem: str) -> None:
    """An option without effect is refused before any patch is applied."""
    with pytest.raises(errors.OptionsError) as caught:
        hookpatch.active("rmsnorm_node", options={"rmsnorm_node": options})
    assert str(caught.value) == (
        f"options of plugin 'rmsnorm_node' (hookpatch-onnx 0.1.0): {problem}; "
        "it takes domain: str, op_type: str, body: bool, strict: bool, compare: bool"
    )


class Strict(torch.nn.Module):
    """A model for torch's strict mode only."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("only Dynamo reads this")
        return self.norm(x)


def test_what_cannot_be_had_is_one_clear_error() -> None:
    """A body at an opset without functions is refused, and a model for strict mode only, where no mark is possible."""
    x = torch.randn(2, WIDTH)
    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {"domain": "acme"}}):
        with pytest.raises(NodeError) as caught:
            exported(torch.nn.Sequential(torch.nn.RMSNorm(WIDTH)), x, dynamo=False, opset_version=13)
        assert str(caught.value) == (
            "plugin 'rmsnorm_node': 0 cannot have its body in the model at opset 13: local functions came with opset "
            "15; export with a higher one, or without body (rmsnorm_node.body=false)"
        )
        with pytest.raises(NodeError) as caught:
            exported(Strict(), x)
        assert str(caught.value) == (
            "plugin 'rmsnorm_node': the model cannot be captured with strict=False, the only mode that lets "
            "hookpatch-onnx mark nodes: RuntimeError: only Dynamo reads this"
        )


def test_model_captured_before_is_warned_of() -> None:
    """A captured model has no modules left to call, and the plugin warns."""
    x = torch.randn(2, WIDTH)
    captured = torch.export.export(torch.nn.RMSNorm(WIDTH).eval(), (x,))
    with hookpatch.active("rmsnorm_node"), pytest.warns(CapturedWarning, match="'rmsnorm_node' has no effect"):
        exported(captured, x)
