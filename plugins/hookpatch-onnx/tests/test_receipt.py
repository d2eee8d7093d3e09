"""The receipt of an export lists nodes and refused parts with reasons, in the report, and as an error if strict."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
import torch
from exported import exported, ops, ran
from hookpatch_onnx.errors import NodeError
from tiny_models import Masked, tiny
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import hookpatch

pytestmark = pytest.mark.model

WIDTH = 8
EXPORTS: dict[str, dict[str, Any]] = {
    "dynamo": {"opset_version": 20},
    "torchscript": {"opset_version": 20, "dynamo": False},
}
STRICT = {name: {"strict": True} for name in ("rmsnorm_node", "gelu_node")}


class Norm(torch.nn.Module):
    """An RMSNorm with eps as a number in forward, and nowhere else."""

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(WIDTH))
        self.normalize = lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * self.normalize(x)


class BiasedRMSNorm(Norm):
    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.bias


class BufferedRMSNorm(Norm):
    def __init__(self) -> None:
        super().__init__()
        del self.weight
        self.register_buffer("weight", torch.randn(WIDTH))


class WideRMSNorm(Norm):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1, 1, WIDTH))


class ClampedRMSNorm(Norm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.clamp(-100, 100))


class Counting(torch.nn.Module):
    """A model that counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.norm(x) + self.calls


class Norms(torch.nn.Module):
    """A module of each kind; some are called in another way than by forward."""

    def __init__(self) -> None:
        super().__init__()
        self.good, self.biased, self.buffered = Norm(), BiasedRMSNorm(), BufferedRMSNorm()
        self.wide, self.clamped, self.past, self.idle = WideRMSNorm(), ClampedRMSNorm(), Norm(), LlamaRMSNorm(WIDTH)
        self.listed = [Norm().requires_grad_(False)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.wide(self.buffered(self.biased(self.good(x))))
        x = Norm.forward(self.past, self.clamped(x))
        return torch.nn.functional.normalize(
            self.listed[0](x) + x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        )


NOT_CALLED = "was not called by its forward, or only in a branch or loop of torch.cond and the like"
LEFT = {
    "biased": "has more than one weight: weight, bias",
    "buffered": "has its weight in a buffer: weight",
    "wide": "has a weight of shape (1, 1, 8)",
    "clamped": "differs from the formula",
    "past": NOT_CALLED,
    "idle": NOT_CALLED,
    "the model": "is written out there",
}


def notes(session: hookpatch.Session) -> list[str]:
    return [note for patch in session.report() for note in patch.notes]


@pytest.mark.parametrize("how", EXPORTS)
def test_each_norm_that_is_no_node_is_named(how: str) -> None:
    """A norm is named with the reason, by the module or else by the nodes of the formula in the graph."""
    with hookpatch.active("rmsnorm_node") as session:
        model = exported(Norms(), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    assert ops(model)["SimplifiedLayerNormalization"] == 1
    *_, note = notes(session)
    # Three are in the model itself; torch.export computes the same formula of one input once.
    count = len(LEFT) + (1 if how == "dynamo" else 2)
    summary, _, missed = note.partition(f"; {count} not: ")
    assert summary == f"1 of {count + 1} norm-like parts became nodes"
    refused = "onnx.checker refuses SimplifiedLayerNormalization at opset 20 (No Op registered for "
    refused += "SimplifiedLayerNormalization with domain_version of 20): onnxruntime runs it; export with "
    refused += "opset_version=23 or higher, or with rmsnorm_node.domain"
    named = ", ".join(f"{part} {why}" for part, why in list(LEFT.items())[:3])
    assert missed == f"{named}, and {count - 3} more; {refused}"


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize(("part", "why"), LEFT.items())
def test_strict_makes_it_an_error(part: str, why: str, how: str) -> None:
    """With strict a part without a node is an error, and no model is made."""
    net = Norms()
    needed = {"the model": ()}.get(part, (part,))
    net.forward = lambda x: Norm.forward(net.past, x) if part == "past" else net.get_submodule(part)(x)  # type: ignore[method-assign]
    if part == "the model":
        net.forward = lambda x: net.listed[0](x)  # type: ignore[method-assign]
    elif part == "idle":
        net.forward = lambda x: x + 1  # type: ignore[method-assign]
    for name, _ in [*net.named_children()]:
        if name not in needed:
            delattr(net, name)
    with (
        hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {"strict": True}}),
        pytest.raises(NodeError) as caught,
    ):
        exported(net, torch.randn(2, 3, WIDTH), **EXPORTS[how])
    ending = "; and 1 more" if part == "past" else ""  # the written-out nodes
    message = (
        f"plugin 'rmsnorm_node': {part} is no node: {why}{ending}; strict=false exports the module without the node"
    )
    assert str(caught.value) == message


@pytest.mark.parametrize("eps", [1e-12, 1e-7, 3e-4, 0.25])
def test_any_eps_is_found(eps: float) -> None:
    """The plugin measures eps, wherever the class keeps eps."""
    net = Norm(eps).eval()
    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": STRICT["rmsnorm_node"]}):
        model = exported(net, torch.randn(2, 3, WIDTH), opset_version=23)
    (node,) = model.graph.node
    assert {attribute.name: attribute.f for attribute in node.attribute}["epsilon"] == pytest.approx(eps, rel=1e-6)


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("name", ["Llama", "Gemma", "T5"])
def test_whole_models_leave_nothing(name: str, how: str) -> None:
    """Every norm of whole models becomes a node: strict may stay on for good."""
    model, ids = Masked(tiny(name)).eval(), torch.arange(12).reshape(2, 6) + 3
    strict = {"strict": True}
    with hookpatch.active(
        "rmsnorm_node", "gelu_node", options={"rmsnorm_node": strict, "gelu_node": strict}
    ) as session:
        exported(model, ids, torch.ones_like(ids), **EXPORTS[how])
    assert any(note.startswith("5 of 5 norm-like parts became nodes") for note in notes(session))


class Function(torch.nn.Module):
    """A written-out GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


class Sub(Norm):
    """A subclass not named in the options."""


@pytest.mark.parametrize("how", EXPORTS)
def test_a_gelu_in_a_larger_module_is_named(how: str) -> None:
    """A GELU in a larger module is found by the nodes of the formula; a tanh alone is no GELU."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(WIDTH, WIDTH)
            self.act = Function()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.act(torch.tanh(self.up(x)))
            return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    with hookpatch.active("gelu_node") as session:
        exported(Net(), torch.randn(2, WIDTH), **EXPORTS[how])
    *_, note = notes(session)
    assert note == "1 of 2 tanh-approximated GELUs became nodes; 1 not: the model is written out there"


ROOT = WIDTH**0.5
WRITTEN: dict[str, tuple[str, Any]] = {  # in a larger module, so that only the nodes tell
    "a clamped mean": ("rmsnorm_node", lambda x: x * x.square().mean(-1, keepdim=True).clamp(1e-5, 1e4).rsqrt()),
    "eps behind the root": ("rmsnorm_node", lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-3)),
    "no eps": ("rmsnorm_node", lambda x: x / x.pow(2).mean(-1, keepdim=True).sqrt()),
    "the greater of two": ("rmsnorm_node", lambda x: x / torch.maximum(x.pow(2).mean(-1, True).sqrt(), x.new_ones(1))),
    "a power": ("rmsnorm_node", lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).pow(-0.5)),
    "a sum by the width": ("rmsnorm_node", lambda x: x * ((x * x).sum(-1, keepdim=True) / WIDTH + 1e-6).rsqrt()),
    "the length by the width": ("rmsnorm_node", lambda x: x / (x.norm(dim=-1, keepdim=True) / ROOT + 1e-6)),
    "a cumulated mean": ("rmsnorm_node", lambda x: x * x.square().mean(-1, keepdim=True).cumsum(1).add(1e-6).rsqrt()),
    "transposed": (
        "rmsnorm_node",
        lambda x: x * x.square().transpose(1, 2).mean(1, True).transpose(1, 2).add(1e-6).rsqrt(),
    ),
    "normalize": ("rmsnorm_node", lambda x: torch.nn.functional.normalize(x, dim=-1) * ROOT),
    "a sigmoid": ("gelu_node", lambda x: x * torch.sigmoid(1.5957691216 * (x + 0.044715 * x**3))),
    "an exp": ("gelu_node", lambda x: x / (1 + torch.exp(-1.5957691216 * (x + 0.044715 * x**3)))),
    "one product": ("gelu_node", lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * x + 0.0356774081 * x**3))),
}
OTHERS: dict[str, Any] = {
    "a direction": lambda x: torch.nn.functional.normalize(x, dim=-1),
    "a LayerNorm": lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt(),
    "an error": lambda x: x + (x - 1).square().mean(-1, keepdim=True).sqrt(),
    "a swish": lambda x: x * torch.sigmoid(1.702 * x),
}


class Larger(torch.nn.Module):
    """Computes a formula twice, between layers."""

    def __init__(self, formula: Any) -> None:
        super().__init__()
        self.up, self.formula = torch.nn.Linear(WIDTH, WIDTH), formula

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.formula(self.up(self.formula(self.up(x)))) + 1


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("name", [*WRITTEN, *OTHERS])
def test_each_spelling_is_found_in_the_graph(name: str, how: str) -> None:
    """Each place counts, also two in one module; other formulas are none."""
    plugin, formula = WRITTEN.get(name) or ("rmsnorm_node", OTHERS[name])
    with hookpatch.active("rmsnorm_node", "gelu_node") as session:
        exported(Larger(formula), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    firsts = {patch.plugin: " ".join(patch.notes[-1].split()[:3]) for patch in session.report() if patch.notes}
    wanted = {"rmsnorm_node": "0 of 0", "gelu_node": "0 of 0"} | ({plugin: "0 of 2"} if name in WRITTEN else {})
    assert firsts == wanted


class Batched(torch.nn.Module):
    """Calls the norm for each row of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(self.norm)(x)


class Branched(torch.nn.Module):
    """Calls the norm in a branch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda y: self.norm(y), lambda y: y * 2, (x,))
        return result


class Traceable(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def _traced() -> torch.nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit.trace is deprecated
        traced: torch.nn.Module = torch.jit.trace(Traceable(), torch.randn(2, 3, WIDTH))
    return torch.nn.Sequential(traced)


VMAPPED = "norm is called by torch.vmap or torch.func, where a node would see other shapes"
CALLED: dict[str, tuple[Any, str, list[str]]] = {
    "torch.vmap": (Batched, VMAPPED, [*EXPORTS]),
    # Plain TorchScript exports no branch, and no module that was traced before.
    "torch.cond": (Branched, f"norm {NOT_CALLED}", ["dynamo"]),
    "traced before": (_traced, "0 is written out there", ["dynamo"]),
}


@pytest.mark.parametrize(("name", "how"), [(name, how) for name, (_, _, hows) in CALLED.items() for how in hows])
def test_a_norm_called_in_another_way_is_named(name: str, how: str) -> None:
    """The norm stays as torch exports it, and the export does not fail."""
    torch.manual_seed(0)
    make, why, _ = CALLED[name]
    net, x = make().eval(), torch.randn(2, 3, WIDTH)
    with hookpatch.active("rmsnorm_node") as session:
        proto = exported(net, x, **EXPORTS[how])
    *_, note = notes(session)
    assert note.partition("; onnx")[0] == f"0 of 1 norm-like parts became nodes; 1 not: {why}"
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(proto, x)[0], net(x).numpy(), rtol=1e-5, atol=1e-5)


def test_classes_without_a_node_are_named() -> None:
    """A class with no instance, an instance of a subclass, and a class of a module not imported are named."""
    words = [f"acme::{name}={__name__}:{name}" for name in ("Norm", "Function")] + [
        "acme::Far=xml.sax.saxutils:XMLFilterBase"
    ]
    net = torch.nn.Sequential(Norm(), Sub())
    with hookpatch.active("onnx_function", options={"onnx_function": {"functions": words}}) as session:
        exported(net, torch.randn(2, 3, WIDTH))
    *_, note = notes(session)
    assert note.startswith("1 of 4 instances became nodes; 3 not: ")
    for reason in (
        f"{__name__}:Function has no instance in the model",
        f"1 ({__name__}:Sub) is of a subclass of {__name__}:Norm; name that class, too",
        "xml.sax.saxutils:XMLFilterBase has no instance: its module was not imported",
    ):
        assert reason in note


def test_a_report_has_the_receipts_of_its_own_session() -> None:
    """Two sessions of one process, one of them inside of the other: an export is in the reports of open sessions."""
    net, x = Norm().eval(), torch.randn(2, WIDTH)
    strict = {"rmsnorm_node": {"strict": True}}
    with hookpatch.active("rmsnorm_node") as first:
        exported(net, x, **EXPORTS["torchscript"])
    with hookpatch.active("rmsnorm_node") as outer, hookpatch.active("gelu_node") as inner:
        exported(torch.nn.ReLU(), x, **EXPORTS["torchscript"])
    with hookpatch.active("rmsnorm_node", options=strict) as idle:
        assert notes(idle) == []
    counts = [[note.partition(" became")[0] for note in notes(session)] for session in (first, outer, inner)]
    assert counts == [["1 of 1 norm-like parts"], ["0 of 0 norm-like parts"], ["0 of 0 tanh-approximated GELUs"]]
