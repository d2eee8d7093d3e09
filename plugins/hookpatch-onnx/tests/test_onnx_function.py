"""onnx_function turns a user's class into a node, with the body as a local function for every runtime."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import onnx
import pytest
import torch
from exported import evaluated, exported, imports, nodes, ops, ran
from hookpatch_onnx.errors import NodeError
from hookpatch_onnx.onnx_function import Options
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import hookpatch
from hookpatch import errors

pytestmark = pytest.mark.model


class Block(torch.nn.Module):
    """Linear, norm, Linear; a reshape with sizes that become constants; two outputs; an optional second input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.norm = torch.nn.Linear(width, width), LlamaRMSNorm(width)
        self.down = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.down(self.norm(torch.relu(self.up(x)))) + x
        h = h.reshape(h.shape[0], -1, h.shape[-1])
        return (h if y is None else h + y), h.mean(-1)


class Net(torch.nn.Module):
    """Two blocks of the same shape with separate weights, and a block of another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = Block(8), Block(8), Block(4)
        self.narrow = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, m = self.first(x)
        b, _ = self.second(a)
        c, k = self.third(self.narrow(b), y=self.narrow(x))
        return c + m.unsqueeze(-1) + k.unsqueeze(-1)


def asked(*words: str) -> dict[str, Any]:
    return {"onnx_function": {"functions": list(words)}}


BLOCK = asked(f"acme.blocks::Block={__name__}:Block")
EXPORTS: dict[str, dict[str, Any]] = {
    "dynamo 17": {"opset_version": 17},
    "dynamo 20": {},
    "dynamo 23, not optimized": {"opset_version": 23, "optimize": False},
    "torchscript 17": {"opset_version": 17, "dynamo": False},
}


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("how", EXPORTS)
def test_instances_are_nodes_whose_bodies_run(net: Net, how: str) -> None:
    """Bodies run in onnxruntime and the reference evaluator, at several shapes; equal computations share a function."""
    with hookpatch.active("onnx_function", options=BLOCK):
        model = exported(net, torch.randn(2, 5, 8), dynamic=2, **EXPORTS[how])
    onnx.checker.check_model(model)
    counts = ops(model)
    assert (counts["acme.blocks::Block"], counts["acme.blocks::Block_2"]) == (2, 1)
    assert imports(model)["acme.blocks"] == 1
    assert not [op for op in counts if "Relu" in op or "hookpatch" in op]
    assert {(function.domain, function.name) for function in model.functions} == {
        ("acme.blocks", "Block"),
        ("acme.blocks", "Block_2"),
    }
    for shape in ((2, 5, 8), (1, 3, 8), (4, 2, 8)):
        x = torch.randn(shape)
        for run in (ran, evaluated):
            numpy.testing.assert_allclose(run(model, x)[0], net(x).detach().numpy(), rtol=1e-5, atol=2e-6)


def test_weights_are_inputs_under_the_names_that_they_have_in_the_module(net: Net) -> None:
    """Weights are inputs with the names in the module, and constants are in the body."""
    with hookpatch.active("onnx_function", options=BLOCK):
        model = exported(net, torch.randn(2, 5, 8), optimize=False)
    (block,) = (function for function in model.functions if function.name == "Block")
    assert block.input == ["x", "up.weight", "up.bias", "norm.weight", "down.weight"]
    first, second = nodes(model, "Block")
    assert first.input == ["x", "first.up.weight", "first.up.bias", "first.norm.weight", "first.down.weight"]
    assert second.input[1:] == ["second.up.weight", "second.up.bias", "second.norm.weight", "second.down.weight"]
    assert {node.op_type for node in block.node} >= {"Constant", "MatMul", "Relu", "Reshape", "ReduceMean"}
    (different,) = nodes(model, "Block_2")
    assert len(different.input) == 6  # two tensors and four weights


class Scaled(torch.nn.Module):
    """A weight with a single number, and a number in the formula."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = torch.nn.Parameter(torch.tensor([by]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x * self.by) + 0.5


def test_single_numbers_are_constants_unless_they_are_weights() -> None:
    """Only a weight is an input, and two instances share a function."""
    net, x = torch.nn.Sequential(Scaled(2.0), Scaled(3.0)), torch.randn(4)
    with hookpatch.active("onnx_function", options=asked(f"acme::Scaled={__name__}:Scaled")):
        model = exported(net, x)
    assert [list(node.input)[1:] for node in nodes(model, "Scaled")] == [["0.by"], ["1.by"]]
    assert [list(function.input) for function in model.functions] == [["x", "by"]]
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class Swish(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid() * x


class Changing(torch.nn.Module):
    """Changes the result of a Swish in place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.swish = torch.nn.Linear(8, 8), Swish()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.swish(self.linear(x))
        y[1:] -= 1
        return y


@pytest.mark.parametrize("how", ["dynamo 20", "torchscript 17"])
def test_the_result_of_a_node_may_be_changed_in_place(how: str) -> None:
    """Torch refuses in-place changes of a view that a function with marks returns."""
    torch.manual_seed(0)
    net, x = Changing().eval(), torch.randn(3, 8)
    with hookpatch.active("onnx_function", options=asked(f"acme::Swish={__name__}:Swish")):
        model = exported(net, x, **EXPORTS[how])
    assert ops(model)["acme::Swish"] == 1
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), atol=1e-6)


def test_half_precision_runs_too() -> None:
    """The body holds all nodes of torch, casts included."""
    torch.manual_seed(0)
    net, x = Net().eval().half(), torch.randn(2, 5, 8).half()
    with hookpatch.active("onnx_function", options=BLOCK):
        model = exported(net, x)
    assert ops(model)["acme.blocks::Block"] == 2
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), rtol=1e-2, atol=1e-2)


def test_nodes_of_other_plugins_are_inside_the_function(net: Net) -> None:
    """The norm within the block is a node of the function's body."""
    with hookpatch.active("onnx_function", "rmsnorm_node", options=BLOCK):
        model = exported(net, torch.randn(2, 5, 8), dynamic=2)
    assert ops(model)["acme.blocks::Block"] == 2
    for function in model.functions:
        assert [node.op_type for node in function.node].count("SimplifiedLayerNormalization") == 1
    x = torch.randn(3, 4, 8)
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), rtol=1e-5, atol=2e-6)


class Outer(torch.nn.Module):
    """A block within a block of another class."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.block(x * 2)
        return y + 1


def test_functions_call_functions_and_a_domain_is_the_package_if_none_is_given() -> None:
    """A class may lie inside another class; the default domain is the first part of the module's name."""
    words = (f"Outer={__name__}:Outer", f"inner::Block={__name__}:Block")
    net, x = torch.nn.Sequential(Outer()).eval(), torch.randn(2, 5, 8)
    with hookpatch.active("onnx_function", options=asked(*words)):
        model = exported(net, x)
    domain = __name__.partition(".")[0]
    assert ops(model) == {f"{domain}::Outer": 1}
    bodies = {function.name: [node.op_type for node in function.node] for function in model.functions}
    assert bodies["Outer"].count("Block") == 1
    onnx.checker.check_model(model)
    numpy.testing.assert_allclose(ran(model, x)[0], net(x).detach().numpy(), rtol=1e-5, atol=2e-6)


class Returning(torch.nn.Module):
    """Returns a dict, or a tuple with None: no outputs of a node."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> Any:
        if self.kind == "dict":
            return {"y": x * 2}
        return (x * 2, None)


class Unwrapping(torch.nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = Returning(kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        got = self.inner(x)
        result: torch.Tensor = got["y"] if isinstance(got, dict) else got[0]
        return result


@pytest.mark.parametrize(("kind", "got"), [("dict", "a dict"), ("pair", "a tuple of Tensor, NoneType")])
@pytest.mark.parametrize("dynamo", [True, False])
def test_class_that_returns_something_else_is_one_clear_error(kind: str, got: str, dynamo: bool) -> None:
    """The error comes out of torch.onnx.export unchanged, with either exporter."""
    options = asked(f"acme::Returning={__name__}:Returning")
    with hookpatch.active("onnx_function", options=options), pytest.raises(NodeError) as caught:
        exported(Unwrapping(kind), torch.randn(3), dynamo=dynamo)
    assert str(caught.value) == (
        f"plugin 'onnx_function': inner ({__name__}:Returning) cannot be one node: it returned {got}; a node's outputs "
        "are tensors: return a tensor or a tuple of tensors"
    )


HERE = __name__


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (f"{HERE}:Blok", f"is not there: {HERE} has no 'Blok'; did you mean 'Block'?"),
        ("no_such_module:Block", "is not there: no module 'no_such_module' can be imported"),
        (f"{HERE}:asked", "is no subclass of torch.nn.Module; only modules become functions"),
        ("collections:Counter", "is no subclass of torch.nn.Module; only modules become functions"),
    ],
)
def test_class_that_is_not_there_is_one_clear_error(address: str, problem: str) -> None:
    """A missing class is an error at the first export."""
    with hookpatch.active("onnx_function", options=asked(f"X={address}")), pytest.raises(NodeError) as caught:
        exported(torch.nn.Linear(2, 2), torch.randn(2))
    assert str(caught.value) == f"plugin 'onnx_function': {address} {problem}"


def test_opset_without_functions_is_one_clear_error() -> None:
    """TorchScript's exporter can go below 15."""
    net = torch.nn.Sequential(Block(4))
    with hookpatch.active("onnx_function", options=BLOCK), pytest.raises(NodeError) as caught:
        exported(net, torch.randn(1, 2, 4), dynamo=False, opset_version=14)
    assert str(caught.value) == (
        f"plugin 'onnx_function': 0 ({__name__}:Block) cannot be a function at opset 14: ONNX has local functions from "
        "opset 15 on; export with opset_version=15 or higher"
    )


class Leaking(torch.nn.Module):
    """An intermediate value is used by the model as well."""

    values: ClassVar[dict[int, torch.Tensor]] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.values[0] = torch.sin(x)
        return self.values[0] * 2


class Using(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Leaking()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.inner.values.pop(0)


def test_what_is_used_outside_on_the_way_is_one_clear_error() -> None:
    """An intermediate value used outside is an error, since a node has no outputs but the declared outputs."""
    options = asked(f"acme::Leaking={__name__}:Leaking")
    with hookpatch.active("onnx_function", options=options), pytest.raises(NodeError) as caught:
        exported(Using(), torch.randn(3))
    assert str(caught.value) == (
        f"plugin 'onnx_function': inner ({__name__}:Leaking) cannot be one node: an inner value ('sin') is used "
        "outside of the function, too"
    )


def test_module_that_is_not_imported_is_nobodys() -> None:
    """The plugin may be on for a whole program: a model without the class is exported as without the plugin."""
    with hookpatch.active("onnx_function", options=asked("wsgi::Handler=wsgiref.handlers:BaseHandler")):
        assert ops(exported(torch.nn.Linear(2, 2), torch.randn(1, 2))) == {"Gemm": 1}


def test_word_that_cannot_be_read_is_refused() -> None:
    """An unreadable option is refused before any patch is applied."""
    with pytest.raises(errors.OptionsError) as caught:
        hookpatch.active("onnx_function", options=asked("acme.Block"))
    assert str(caught.value) == (
        "options of plugin 'onnx_function' (hookpatch-onnx 0.1.0): 'acme.Block' cannot be read; write "
        "NAME=module:Class or domain::NAME=module:Class; it takes functions: list[str], strict: bool, compare: bool"
    )
    with pytest.raises(ValueError, match=r"'a-b=m:C' cannot be read"):
        Options(["a-b=m:C"])
