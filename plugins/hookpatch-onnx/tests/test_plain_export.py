"""With compare=true the receipt says whether a model is the plain export, outside of the nodes of the plugins."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import onnx
import onnx_ir as ir
import pytest
import torch
from exported import exported, ops, ran
from hookpatch_onnx._model.metadata import MADE_BY
from hookpatch_onnx._outside.above import Stand
from hookpatch_onnx._outside.outside import Outside
from hookpatch_onnx._outside.side import Side
from hookpatch_onnx.errors import NodeError
from test_receipt import EXPORTS, WIDTH, Counting, Norm, notes
from tiny_models import Masked, tiny
from transformers.activations import NewGELUActivation
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import hookpatch

pytestmark = pytest.mark.model

COMPARE = {"compare": True}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"{name}, {how}": (name, EXPORTS[how]) for name in ("GPT-Neo", "Gemma", "Llama", "T5") for how in EXPORTS},
    **{
        f"{name}, torchscript, dynamic": (name, {**EXPORTS["torchscript"], "dynamic": 2})
        for name in ("GPT-Neo", "Gemma", "Llama", "T5")
    },
    "Gemma, dynamo, dynamic": ("Gemma", {"opset_version": 20, "dynamic": 2}),
    "Llama, dynamo, not optimized": ("Llama", {"opset_version": 20, "optimize": False}),
    "T5, dynamo, opset 23": ("T5", {"opset_version": 23}),
}


def compared(model: torch.nn.Module, *args: Any, plugins: tuple[str, ...] = ("rmsnorm_node",), **how: Any) -> Any:
    """Return the exported model, and the last clause of the receipt."""
    with hookpatch.active(*plugins, options={plugins[-1]: COMPARE}) as session:
        proto = exported(model, *args, **how)
    return proto, notes(session)[-1].rpartition("; ")[2]


@pytest.mark.parametrize(("name", "how"), MODELS.values(), ids=MODELS)
def test_whole_models_are_the_plain_export_elsewhere(name: str, how: dict[str, Any]) -> None:
    """Outside of the regions all nodes, weights, sizes and axes named by a user are those of the plain export."""
    model, ids = Masked(tiny(name)).eval(), torch.arange(12).reshape(2, 6) + 3
    args = (ids, torch.ones_like(ids))
    proto, remark = compared(model, *args, plugins=("rmsnorm_node", "gelu_node"), **how)
    others = [node for node in proto.graph.node if node.op_type != "Constant" and not _is_made(node)]
    assert len(others) < len(proto.graph.node)
    assert remark == f"all other {len(others)} nodes are those of the plain export"
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(proto, *args)[0], model(*args).numpy(), rtol=1e-4, atol=1e-5)


class Repeated(torch.nn.Module):
    """A norm with two names, called in three layers, of which one is called twice."""

    def __init__(self) -> None:
        super().__init__()
        norm = Norm()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(norm, torch.nn.Linear(WIDTH, WIDTH)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index in (0, 1, 0):
            x = x + self.layers[index](x)
        return x


@pytest.mark.parametrize("how", EXPORTS)
def test_a_norm_with_two_names_and_several_calls(how: str) -> None:
    """The nodes of the plain export have another name of the module, or ``norm_1``."""
    proto, remark = compared(Repeated(), torch.randn(2, 3, WIDTH), **EXPORTS[how])
    assert ops(proto)["SimplifiedLayerNormalization"] == 3
    assert remark.endswith("nodes are those of the plain export")


class _Named(torch.nn.Module):
    """TorchScript's exporter leaves out the name of a ModuleDict, and makes one cast of two."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleDict({"first": Norm(), "last": Norm()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norms["last"](self.norms["first"](x) + x.bool() + x.bool())


class _OfItself(torch.nn.Module):
    """A norm of its own result, and two norms of one input, of which torch.export computes the common part once."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.beside = LlamaRMSNorm(WIDTH), LlamaRMSNorm(WIDTH, eps=1e-3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.norm(self.norm(self.norm(x))) + self.beside(x), x


CHAINS: dict[str, Callable[[], torch.nn.Module]] = {
    "a norm of itself": _OfItself,
    "norm, norm": lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), Norm(), Norm()),
    "norm, norm in a dict": lambda: _Named(),
    "norm, GELU, norm": lambda: torch.nn.Sequential(Norm(), NewGELUActivation(), torch.nn.Sequential(Norm(), Norm())),
}


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("chain", CHAINS)
def test_nodes_of_plugins_that_read_each_other(chain: str, how: str) -> None:
    """The node of a norm stands for the nodes of the norm, and for no weight of the norm behind."""
    how_named = {**EXPORTS[how], "output_names": ["y", "x"][: 1 + (chain == "a norm of itself")]}
    proto, remark = compared(
        CHAINS[chain](), torch.randn(2, 3, WIDTH), plugins=("rmsnorm_node", "gelu_node"), **how_named
    )
    assert (ops(proto)["SimplifiedLayerNormalization"], remark.partition("other ")[0]) == (
        2 + (chain == "norm, GELU, norm") + 2 * (chain == "a norm of itself"),
        "all ",
    )


class Net(torch.nn.Module):
    """Two norms; other nodes read the input of the first norm, too, and only the norm that of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm, self.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(8, 8), Norm(), Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.a(x))
        return torch.softmax(self.last(self.b(self.norm(y)) * 3.0 - y), -1)


def _node(model: ir.Model, op_type: str, which: int = 0) -> ir.Node:
    return [node for node in model.graph if node.op_type == op_type][which]


def _value(node: ir.Node) -> ir.Value:
    return node.outputs[0]


def _set_axis(model: ir.Model) -> None:
    _node(model, "Softmax").attributes["axis"] = ir.AttrInt64("axis", 0)


def _change_weight(model: ir.Model) -> None:
    weight = model.graph.initializers["a.bias"]
    assert weight.const_value is not None
    weight.const_value = ir.tensor(weight.const_value.numpy() + 1, name="a.bias")


def _change_constant(model: ir.Model) -> None:
    _node(model, "Mul").replace_input_with(1, _constant(model, 4.0))


def _constant(model: ir.Model, number: float) -> ir.Value:
    node = ir.Node("", "Constant", [], [ir.AttrFloat32("value_float", number)], num_outputs=1)
    model.graph.insert_before(model.graph[0], node)
    return _value(node)


def _pass_by_a_node(model: ir.Model) -> None:
    relu = _node(model, "Relu")
    assert relu.inputs[0] is not None
    _value(relu).replace_all_uses_with(relu.inputs[0])
    model.graph.remove(relu)


def _keep_an_unused_node(model: ir.Model) -> None:
    model.graph.append(ir.Node("", "Neg", [model.graph.inputs[0]], name="extra"))


def _read_before_the_relu(model: ir.Model) -> None:
    _node(model, "SimplifiedLayerNormalization").replace_input_with(0, _node(model, "Relu").inputs[0])


def _skip_the_norm(model: ir.Model) -> None:
    norm = _node(model, "SimplifiedLayerNormalization")
    for use in _value(norm).uses():
        use.node.replace_input_with(use.idx, norm.inputs[0])
    model.graph.remove(norm)


def _skip_to_the_first_norm(model: ir.Model) -> None:
    last = _node(model, "SimplifiedLayerNormalization", 1)
    last.replace_input_with(0, _value(_node(model, "SimplifiedLayerNormalization")))


def _swap_inputs(model: ir.Model) -> None:
    sub = _node(model, "Sub")
    first, second = sub.inputs
    sub.replace_input_with(0, second)
    sub.replace_input_with(1, first)


def _forget_a_shape(model: ir.Model) -> None:
    _value(_node(model, "Relu")).shape = None


def _make_the_output_dynamic(model: ir.Model) -> None:
    model.graph.outputs[0].shape = ir.Shape(["batch", 3, WIDTH])


def _rename_the_output(model: ir.Model) -> None:
    model.graph.outputs[0].name = "other"


def _change_the_input(model: ir.Model) -> None:
    model.graph.inputs[0].type = ir.TensorType(ir.DataType.DOUBLE)


def _change_the_opset(model: ir.Model) -> None:
    model.opset_imports[""] = 21


CHANGES: list[tuple[Callable[[ir.Model], None], str]] = [
    (_set_axis, "(Softmax) instead of "),
    (_change_weight, "the constant a.bias"),
    (_change_constant, "the constant "),
    (_pass_by_a_node, "(Add) instead of "),
    (_keep_an_unused_node, "extra (Neg) is new"),
    (_read_before_the_relu, "(SimplifiedLayerNormalization) reads linear"),
    (_skip_the_norm, "relu is relu in one place, and mul_1 in another"),
    (_skip_to_the_first_norm, " does not read "),
    (_swap_inputs, " instead of "),
    (_forget_a_shape, "FLOAT instead of FLOAT[2,3,8]"),
    (_make_the_output_dynamic, "FLOAT[batch,3,8] instead of FLOAT[2,3,8]"),
    (_rename_the_output, "the names of the outputs"),
    (_change_the_input, "DOUBLE[2,3,8] instead of FLOAT[2,3,8]"),
    (_change_the_opset, "the opset versions"),
]


@pytest.fixture(scope="module")
def pair() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model with nodes of the plugin, and the plain one."""
    net, x = Net().eval(), torch.randn(2, 3, WIDTH)
    with hookpatch.active("rmsnorm_node"):
        changed = exported(net, x, **EXPORTS["dynamo"])
    return changed, exported(net, x, **EXPORTS["dynamo"])


def _outside(changed: ir.Model, plain: ir.Model) -> list[str]:
    made = [node for node in changed.graph if MADE_BY in node.metadata_props]
    names = ("norm", "last")[-len(made) :]
    stands = {node: Stand(number, names[number], True) for number, node in enumerate(made)}
    return Outside(Side(changed, {}), Side(plain, {}), stands).differences


@pytest.mark.parametrize(("change", "says"), CHANGES)
def test_each_difference_is_found(
    pair: tuple[onnx.ModelProto, onnx.ModelProto], change: Callable[[ir.Model], None], says: str
) -> None:
    """One change on purpose of the changed model is a difference; without the change there is none."""
    changed, plain = (ir.from_proto(proto) for proto in pair)
    assert _outside(changed, plain) == []
    change(changed)
    differences = _outside(changed, plain)
    assert any(says in difference for difference in differences), differences


def test_a_node_that_the_changed_model_lacks_is_found(pair: tuple[onnx.ModelProto, onnx.ModelProto]) -> None:
    """A node that only the plain model has is a difference, even if the node is not used."""
    changed, plain = (ir.from_proto(proto) for proto in pair)
    _keep_an_unused_node(plain)
    assert _outside(changed, plain) == ["extra (Neg) is missing"]


class Drifting(torch.nn.Module):
    """A model with another factor at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.factors = Norm(), itertools.count(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * next(self.factors)


def test_the_receipt_names_a_difference() -> None:
    """A model that computes something else at the second call differs, and the receipt says where."""
    _, remark = compared(Drifting(), torch.randn(2, 3, WIDTH), opset_version=20, dynamo=False)
    assert remark.startswith("elsewhere the model differs from the plain export: the constant /Constant")


@pytest.mark.parametrize("how", EXPORTS)
def test_a_strict_plugin_refuses_a_difference(how: str) -> None:
    """With strict=true the difference ends the export with an error, and the message names the difference."""
    x = torch.randn(2, 3, WIDTH)
    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {**COMPARE, "strict": True}}):
        assert exported(Net().eval(), x, **EXPORTS[how]).graph.node  # without a difference the export goes through
        with pytest.raises(NodeError) as refusal:
            exported(Drifting().eval(), x, **EXPORTS[how])
    message = str(refusal.value)
    assert message.startswith(
        "plugin 'rmsnorm_node': the model is written, but refused: elsewhere the model differs from the plain export: "
    )
    assert message.endswith("; strict=false makes a remark of the refusal")


def test_a_strict_plugin_refuses_a_model_not_compared() -> None:
    """A model that fails at the second export cannot be compared, which a strict plugin refuses."""

    class Once(Drifting):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if next(calls) > 0:
                raise ValueError("too many calls")
            return super().forward(x)

    calls, model, x = itertools.count(), Once().eval(), torch.randn(2, 3, WIDTH)
    strict = {"rmsnorm_node": {**COMPARE, "strict": True}}
    with hookpatch.active("rmsnorm_node", options=strict), pytest.raises(NodeError, match="ValueError: too many calls"):
        exported(model, x, opset_version=20, dynamo=False)


def test_outputs_with_names_are_those_of_the_plain_export() -> None:
    """With dynamic shapes torch counts the outputs otherwise behind a mark; the receipt says so, and names are kept."""

    class Residual(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) - x

    net, x, how = Residual(), torch.randn(2, 3, WIDTH), {"opset_version": 20, "dynamic": 2}
    assert compared(net, x, **how)[1].endswith(": the names of the outputs (give output_names)")
    proto, remark = compared(net, x, output_names=["y"], **how)
    assert [output.name for output in proto.graph.output] == ["y"]
    assert remark.endswith(" nodes are those of the plain export")


@pytest.mark.filterwarnings("ignore:ONNX Preprocess - Removing mutation")  # by TorchScript's exporter
@pytest.mark.parametrize("how", EXPORTS)
def test_the_second_export_leaves_no_trace(how: str) -> None:
    """Buffers, random numbers and the exported model are those of one export."""

    counts, numbers, models = [], [], []
    weight, x = torch.randn(WIDTH), torch.randn(2, 3, WIDTH)
    for is_compared in (False, True):
        net = Counting()
        net.norm.weight.data = weight
        torch.manual_seed(0)
        with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": {"compare": is_compared}}) as session:
            models.append(exported(net, x, **EXPORTS[how]).SerializeToString())
        counts.append(float(net.calls))
        numbers.append(float(torch.rand(())))
        assert notes(session)[-1].endswith("nodes are those of the plain export") is is_compared
    assert (counts[0], numbers[0], models[0]) == (counts[1], numbers[1], models[1])


class Doubled(torch.autograd.Function):
    """Declares one node."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + x) + 1

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("acme::Doubled", x)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(WIDTH, WIDTH), Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(self.norm(x)))


@pytest.mark.parametrize("how", EXPORTS)
def test_nodes_of_all_plugins_are_left_out(how: str) -> None:
    """Local functions with a norm inside, declared nodes, norms side by side and a branch."""

    class All(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.Sequential(Block(), Block(), Norm(), Norm())
            self.beside = Norm()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = Doubled.apply(torch.sigmoid(x)) if how == "dynamo" else x
            y = self.blocks(y) + self.beside(y - 1)
            return torch.cond(y.sum() > 0, torch.sin, lambda z: z * 2, (y,)) if how == "dynamo" else y.sin()

    torch._dynamo.reset()  # torch refuses a torch.cond that ran before inside of a dispatch mode
    plugins = ("symbolic_functions", "onnx_function", "rmsnorm_node")
    options = {"onnx_function": {"functions": [f"acme::Block={__name__}:Block"], **COMPARE}, "rmsnorm_node": COMPARE}
    with hookpatch.active(*plugins, options=options) as session:
        proto = exported(All().requires_grad_(False), torch.randn(2, 3, WIDTH), output_names=["y"], **EXPORTS[how])
    last = [patch.notes[-1] for patch in session.report() if patch.notes and "became nodes" in patch.notes[-1]]
    remarks = {note.rpartition("; ")[2] for note in last if "plain export" in note}
    count = ops(proto)["Sigmoid"] + ops(proto)["Add"] + (6 if how == "dynamo" else 2)
    assert remarks == {f"all other {count} nodes are those of the plain export"}


class Pair(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a - b


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Positions(torch.nn.Module):
    """Reads the length of the input, of which the exported program computes the size in no module."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(16, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[1]]


class Between(torch.nn.Module):
    """GELUs of two halves, norms in half precision and without gradients, a function of its own results, with sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.norm, self.last = NewGELUActivation(), LlamaRMSNorm(WIDTH), Norm()
        self.pair, self.positions, self.same = Pair(), Positions(), Same()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.same(x * 2)
        self.same(x + 3)  # the result is not used
        with torch.no_grad():
            x = self.last(x.relu())
        a, b = x.split(WIDTH // 2, -1)
        y = self.norm(torch.cat([self.act(a), self.act(b)], -1).half()).float()
        first, second = self.pair(*self.pair(y, y * 2))
        first, second = self.pair(second, first)
        return self.positions(first) * second


@pytest.mark.parametrize("how", EXPORTS)
def test_nodes_between_two_modules(how: str) -> None:
    """The names of modules that torch gives no node are found; each result of a function is found once."""
    words = [f"acme::{kind.__name__}={__name__}:{kind.__name__}" for kind in (Pair, Positions, Same)]
    options = {"onnx_function": {"functions": words}, "gelu_node": COMPARE}
    net, x = Between().eval(), torch.randn(2, 3, WIDTH)
    with hookpatch.active("onnx_function", "rmsnorm_node", "gelu_node", options=options) as session:
        proto = exported(net, x, **{**EXPORTS[how], "dynamic": 2, "output_names": ["y"]})
    assert notes(session)[-1].endswith(" nodes are those of the plain export"), notes(session)[-1]
    assert (ops(proto)["acme::Pair"], ops(proto)["acme::Positions"], ops(proto)["Gelu"]) == (3, 1, 2)
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(proto, x)[0], net(x).numpy(), rtol=2e-2, atol=2e-2)


class Added(torch.nn.Module):
    """A norm of one input, which adds another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = LlamaRMSNorm(WIDTH)

    def forward(self, x: torch.Tensor, more: torch.Tensor | None = None) -> torch.Tensor:
        return self.norm(x) if more is None else self.norm(x) + more


class Casting(torch.nn.Module):
    """Two functions read one input, of which TorchScript's exporter makes a cast in the first function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Added(), Added()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.first(x), x)


class Masking(Casting):
    """Two equal casts and views of a mask, beside a function whose result is the result of the model."""

    def forward(self, mask: torch.Tensor) -> torch.Tensor:
        return self.last(self.first.norm.weight * mask.float()[..., None] + mask.float()[..., None])


class Around(Casting):
    """A function around the two functions, which reads the same input."""


class Crossed(Casting):
    """A function of two results of one part; the later result is the first input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.first(x)
        return self.last(self.first(x * 2), result)


def test_two_results_of_one_part() -> None:
    """Which call of a part is which is known by the order of the calls."""
    options = {"onnx_function": {"functions": [f"acme::Added={__name__}:Added"], **COMPARE}}
    with hookpatch.active("onnx_function", options=options) as session:
        exported(Crossed(), torch.randn(2, 3, WIDTH), output_names=["y"], **EXPORTS["dynamo"])
    assert notes(session)[-1].endswith("all other 1 nodes are those of the plain export")


@pytest.mark.parametrize(
    ("net", "x", "count"),
    [
        (Casting(), torch.randn(2, 3, WIDTH), 2),
        (Masking(), torch.ones(2, 3).long(), 1),
        (torch.nn.Sequential(Around(), torch.nn.Tanh()), torch.randn(2, 3, WIDTH), 1),
    ],
    ids=["parts", "masks", "around"],
)
def test_a_cast_that_two_parts_read(net: torch.nn.Module, x: torch.Tensor, count: int) -> None:
    """The result of the first function is not taken for the cast inside; torch merges equal casts beside a function."""
    words = [f"acme::{kind.__name__}={__name__}:{kind.__name__}" for kind in (Added, Around)]
    with hookpatch.active("onnx_function", options={"onnx_function": {"functions": words, **COMPARE}}) as session:
        proto = exported(net, x, output_names=["y"], **EXPORTS["torchscript"])
    assert notes(session)[-1].endswith(" nodes are those of the plain export")
    assert sum(node.domain == "acme" for node in proto.graph.node) == count


def test_a_hook_for_gradients() -> None:
    """The result of a node in TorchScript's graph has a gradient, for which torch's hooks add a view."""
    norms = torch.nn.Linear(WIDTH, WIDTH), LlamaRMSNorm(WIDTH), LlamaRMSNorm(WIDTH), torch.nn.ReLU(inplace=True)
    norms[1].register_full_backward_hook(lambda *_: None)
    with hookpatch.active("rmsnorm_node", options={"rmsnorm_node": COMPARE}) as session:
        exported(torch.nn.Sequential(*norms), torch.randn(2, WIDTH), output_names=["y"], **EXPORTS["torchscript"])
    assert notes(session)[-1].endswith("all other 6 nodes are those of the plain export")


class Reshaped(LlamaRMSNorm):
    """Reads the sizes of the input, which torch.export takes from the input of the model."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.reshape(-1, WIDTH)).reshape(x.shape)


class Table(torch.nn.Module):
    """Two functions: one does not read its input; the other reads a length alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(16, WIDTH))

    def forward(self, x: torch.Tensor | int) -> torch.Tensor:
        return self.table[0] * 2 if isinstance(x, torch.Tensor) else self.table[torch.arange(x)]


class Times(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, by: float = 1.0, branches: bool = False) -> torch.Tensor:
        x = self.linear(x) * by
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)) if branches else x


class Unlike(torch.nn.Module):
    """Parts whose nodes read another input than the plain nodes, name a weight again or hold a branch."""

    def __init__(self, branches: bool) -> None:
        super().__init__()
        self.unused, self.norms = LlamaRMSNorm(WIDTH), torch.nn.Sequential(Reshaped(WIDTH), Reshaped(WIDTH))
        self.table, self.times, self.branches = Table(), Times(), branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.unused(x)
        x = self.norms(x)
        x = self.times(x) + self.times(x, 3.0, self.branches)
        if self.branches:  # TorchScript's exporter would take the length for a constant
            x = x + self.table(x.shape[1])
        return x + self.table(x)


@pytest.mark.parametrize("how", EXPORTS)
def test_nodes_that_read_another_input(how: str) -> None:
    """An input that a node reads, and the plain nodes do not, or only for its size, is no difference."""
    words = [f"acme::{kind.__name__}={__name__}:{kind.__name__}" for kind in (Table, Times)]
    options = {"onnx_function": {"functions": words}, "rmsnorm_node": COMPARE}
    net, x = Unlike(branches=how == "dynamo").eval().requires_grad_(False), torch.randn(2, 3, WIDTH)
    with hookpatch.active("onnx_function", "rmsnorm_node", options=options) as session:
        proto = exported(net, x, **{**EXPORTS[how], "dynamic": 2, "output_names": ["y"]})
    (note,) = (note for note in notes(session) if "norm-like" in note)
    assert note.endswith(" nodes are those of the plain export"), note
    assert "2 of 3 norm-like parts became nodes; 1 not: unused is called, but the model does not use its result" in note
    assert sum(count for op, count in ops(proto).items() if op.startswith("acme::")) == 3 + net.branches
    with torch.no_grad():
        numpy.testing.assert_allclose(ran(proto, x)[0], net(x).numpy(), rtol=1e-4, atol=1e-4)


def _is_made(node: onnx.NodeProto) -> bool:
    return any(prop.key == MADE_BY for prop in node.metadata_props)
