"""symbolic_functions exports the declared node of an autograd.Function, with both exporters."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy
import onnx
import pytest
import torch
from exported import attributes, evaluated, exported, imports, nodes, ops, quiet, ran
from hookpatch_onnx.errors import CapturedWarning, NodeError
from onnx.reference.op_run import OpRun
from torch.onnx._internal.torchscript_exporter import jit_utils, utils

import hookpatch

pytestmark = pytest.mark.model


class CustomReLU(torch.autograd.Function):
    """The issue's example: y = alpha * max(x, 0), declared as a node of a custom domain."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        return x.clamp(min=0) * alpha

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None

    @staticmethod
    def symbolic(g: Any, x: Any, alpha: float) -> Any:
        return g.op("my_domain::CustomReLU", x, alpha_f=alpha).setType(x.type())


apply_bound_before, export_bound_before = CustomReLU.apply, torch.onnx.export


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return apply_bound_before(self.linear(x), 0.5) + 1


class CustomReLUOp(OpRun):
    """The computation of the node, for the reference evaluator."""

    op_domain = "my_domain"

    def _run(self, x: Any, alpha: float | None = None) -> Any:
        return ((numpy.maximum(x, 0) * alpha).astype(x.dtype),)


CustomReLUOp.__name__ = "CustomReLU"


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def test_without_the_plugin_torch_drops_the_node(net: Net) -> None:
    """Without the plugin, dynamo=True exports the operators of forward."""
    assert ops(exported(net, torch.randn(3, 6))) == {"Gemm": 1, "Max": 1, "Mul": 1, "Add": 1}


@pytest.mark.parametrize(
    "options",
    [{}, {"optimize": False}, {"opset_version": 17}, {"opset_version": 23}, {"dynamo": False}],
    ids=["dynamo", "not optimized", "opset 17", "opset 23", "torchscript"],
)
def test_node_is_there_with_its_domain_and_computes_the_same(net: Net, options: dict[str, Any]) -> None:
    """The model has a my_domain::CustomReLU with attribute and opset import, and equal numbers at all batch sizes."""
    with hookpatch.active("symbolic_functions"):
        model = exported(net, torch.randn(3, 6), dynamic=1, **options)
    assert ops(model)["my_domain::CustomReLU"] == 1
    assert not {"Max", "Clip", "hookpatch_onnx::Begin", "hookpatch_onnx::End"} & set(ops(model))
    (node,) = nodes(model, "CustomReLU")
    assert attributes(node) == {"alpha": 0.5}
    assert imports(model) == {"": options.get("opset_version", 20), "my_domain": 1}
    for batch in (1, 3, 7):
        x = torch.randn(batch, 6)
        (y,) = evaluated(model, x, new_ops=[CustomReLUOp])
        numpy.testing.assert_allclose(y, net(x).detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_dtype_is_that_of_the_tensor(dtype: torch.dtype) -> None:
    """The node's output is declared with the dtype of the tensor, and half precision computes the same."""
    torch.manual_seed(0)
    net = Net().eval().to(dtype)
    x = torch.randn(3, 6, dtype=dtype)
    with hookpatch.active("symbolic_functions"):
        model = exported(net, x)
    assert ops(model) == {"Gemm": 1, "my_domain::CustomReLU": 1, "Add": 1}
    (y,) = evaluated(model, x, new_ops=[CustomReLUOp])
    tolerance = 2 * torch.finfo(dtype).eps * 4
    numpy.testing.assert_allclose(y, net(x).detach().numpy(), rtol=tolerance, atol=tolerance)


def test_both_exporters_declare_the_same_node(net: Net) -> None:
    """The node of the plugin equals the node of TorchScript's exporter, the measure for symbolic."""
    x = torch.randn(3, 6)
    by_torchscript = nodes(exported(net, x, dynamo=False), "CustomReLU")[0]
    with hookpatch.active("symbolic_functions"):
        (node,) = nodes(exported(net, x), "CustomReLU")
    assert (node.domain, attributes(node)) == (by_torchscript.domain, attributes(by_torchscript))


class TopN(torch.nn.Module):
    """Several outputs, an operation of ONNX on the way, attributes of every kind, sizes unknown to forward."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.zeros(x.shape[0], n), torch.zeros(x.shape[0], n, dtype=torch.int64)  # a stand-in, as many are

        @staticmethod
        def symbolic(g: Any, x: Any, n: int) -> Any:
            attributes = {"n_i": n, "sizes_i": [1, 2], "scale_f": 0.25, "mode_s": "largest", "table_t": torch.ones(2)}
            attributes |= {"weights_f": [0.5, 2.0], "names_s": ["a", "b"]}
            values, places = g.op("vendor::TopN", g.op("Relu", x), outputs=2, **attributes)
            values.setType(x.type().with_sizes([None, n]))
            places.setType(x.type().with_dtype(torch.int32).with_sizes([5, n]))
            return values, places

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = TopN.Function.apply(x * 2, 3)
        return values + 1, places


def test_outputs_attributes_and_declared_types_are_honoured() -> None:
    """Outputs, attributes and types are as declared, also if forward is a stand-in without regard to the input."""
    with hookpatch.active("symbolic_functions"):
        model = exported(TopN(), torch.randn(5, 4), custom_opsets={"vendor": 7}, dynamic=1)
    assert ops(model) == {"Mul": 1, "Relu": 1, "vendor::TopN": 1, "Add": 1}
    assert imports(model) == {"": 20, "vendor": 7}
    (node,) = nodes(model, "TopN")
    settings = attributes(node)
    assert onnx.numpy_helper.to_array(settings.pop("table")).tolist() == [1, 1]
    assert settings.pop("weights") == [0.5, 2.0]
    assert settings == {"n": 3, "sizes": [1, 2], "scale": 0.25, "mode": b"largest", "names": [b"a", b"b"]}
    assert [output for output in node.output if output]  # two outputs, wired to the graph
    values, places = (output.type.tensor_type for output in model.graph.output)
    assert [values.shape.dim[1].dim_value, places.shape.dim[1].dim_value] == [3, 3]
    assert values.shape.dim[0].dim_param  # the batch stays free where symbolic gives no size
    assert places.shape.dim[0].dim_value == 5  # and is fixed where symbolic gives a size
    assert places.elem_type == onnx.TensorProto.INT32  # of setType, though forward returns int64


def test_eager_is_unchanged_inside_the_block_and_in_other_threads(net: Net) -> None:
    """Only calls by the export, in the thread of the export, are declared."""
    x = torch.randn(3, 6)
    wanted = net(x)
    results: list[torch.Tensor] = []

    class Watching(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=lambda: results.append(net(eager)))
            thread.start()
            thread.join()
            return apply_bound_before(x, 0.5)

    eager = x.clone()
    apply, code = torch.autograd.Function.__dict__["apply"], torch.autograd.Function.apply.__func__.__code__
    export, export_code = torch.onnx.export, torch.onnx.export.__code__
    with hookpatch.active("symbolic_functions"):
        assert torch.equal(net(x), wanted)
        assert torch.autograd.Function.apply.__func__.__code__ is code
        assert ops(exported(Watching(), x)) == {"my_domain::CustomReLU": 1}
        assert torch.equal(net(x), wanted)
    assert len(results) == 1
    assert torch.equal(results[0], wanted)
    assert (torch.autograd.Function.__dict__["apply"], torch.onnx.export) == (apply, export)
    assert torch.autograd.Function.apply.__func__.__code__ is code
    assert torch.onnx.export.__code__ is export_code


def test_captured_program_that_the_caller_gets_is_torchs_own(net: Net) -> None:
    """The program computes the same numbers, holds no marks, and can be exported again outside of the block."""
    x = torch.randn(3, 6)
    with quiet(), hookpatch.active("symbolic_functions"):
        program = export_bound_before(net, (x,), verbose=False)
    assert torch.allclose(program.exported_program.module()(x), net(x))
    targets = {str(node.target) for node in program.exported_program.graph.nodes}
    assert not [target for target in targets if "hookpatch" in target]
    assert ops(exported(program.exported_program, x))["my_domain::CustomReLU"] == 0


def test_torch_logs_nothing_about_what_is_done(net: Net) -> None:
    """Torch's translation knows the marks like torch's own operators, and logs no message about hookpatch."""
    records: list[logging.LogRecord] = []
    logger = logging.getLogger("torch.onnx")
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]  # all that a handler does
    logger.addHandler(handler)
    try:
        with hookpatch.active("symbolic_functions"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, (torch.randn(3, 6),), verbose=False)
    finally:
        logger.removeHandler(handler)
    assert records  # torch logs a missing torchvision
    assert not [record for record in records if "hookpatch" in record.getMessage()]


def test_program_captured_before_is_warned_of(net: Net) -> None:
    """A captured program has no autograd.Function left, and the plugin warns."""
    captured = torch.export.export(net, (torch.randn(3, 6),))
    with hookpatch.active("symbolic_functions"), pytest.warns(CapturedWarning) as caught:
        exported(captured, torch.randn(3, 6))
    assert [str(warning.message) for warning in caught] == [
        "plugin 'symbolic_functions' has no effect: the model was captured before, as an ExportedProgram; "
        "export the module itself"
    ]


class Branching(torch.autograd.Function):
    """Declares an If with graphs that read outer values; the second graph returns an outer value unchanged."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.sum() > 0, torch.relu(x), x)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        is_positive = g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), g.op("Constant", value_t=torch.tensor(0.0)))
        result, (then_block, else_block), _ = jit_utils.add_op_with_blocks(g, "If", is_positive, n_blocks=2)
        utils._add_output_to_block(then_block.block, then_block.op("Relu", x))
        utils._add_output_to_block(else_block.block, x)
        return result


class Looping(torch.autograd.Function):
    """Declares a Loop that doubles its input three times."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 8

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        times, goes_on = (g.op("Constant", value_t=torch.tensor(value)) for value in (3, True))
        result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, goes_on, x, n_blocks=1)
        utils._add_input_to_block(body.block)
        utils._add_output_to_block(body.block, body.op("Identity", utils._add_input_to_block(body.block)))
        inside = utils._add_input_to_block(body.block)
        utils._add_output_to_block(body.block, body.op("Add", inside, inside))
        return result


@pytest.mark.parametrize("function", [Branching, Looping])
def test_graphs_inside_of_nodes_are_taken_over(function: type[torch.autograd.Function]) -> None:
    """The branches of an If and the body of a Loop are exported; the model is valid, and computes as forward does."""

    class Applies(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function.apply(x + 1) + 1

    with hookpatch.active("symbolic_functions"):
        model = exported(Applies(), torch.ones(2, 3), dynamic=1)
    assert {"If", "Loop"} & set(ops(model))
    onnx.checker.check_model(model, full_check=True)
    for x in (torch.ones(2, 3), torch.full((5, 3), -4.0)):
        numpy.testing.assert_allclose(ran(model, x)[0], Applies()(x).numpy())


class Wrong(torch.nn.Module):
    """Applies a function with the mistake named by ``kind``."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    class Raising(CustomReLU):
        @staticmethod
        def symbolic(g: Any, x: Any, alpha: float) -> Any:
            raise ValueError("no such mode")

    class Pair(CustomReLU):
        @staticmethod
        def symbolic(g: Any, x: Any, alpha: float) -> Any:
            return g.op("my::Pair", x, outputs=2)

    class Listed(CustomReLU):
        @staticmethod
        def forward(ctx: Any, many: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return x * len(many)

        @staticmethod
        def symbolic(g: Any, many: Any, x: Any) -> Any:
            return g.op("my::Listed", x)

    class InPlace(CustomReLU):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
            ctx.mark_dirty(x)
            return x.mul_(alpha)

    class Nested(CustomReLU):
        @staticmethod
        def symbolic(g: Any, x: Any, alpha: float) -> Any:
            result, (body,), _ = jit_utils.add_op_with_blocks(g, "my::Each", x, n_blocks=1)
            utils._add_output_to_block(body.block, x)
            return result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "list":
            return Wrong.Listed.apply([x + 1, x + 2], x)
        if self.kind == "size":
            return CustomReLU.apply(x, x.shape[0])
        if self.kind == "strict" and not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("only Dynamo reads this")
        function = getattr(Wrong, self.kind, CustomReLU)
        return function.apply(x, 0.5)


@pytest.mark.parametrize(
    ("kind", "function", "problem"),
    [
        ("Raising", "Wrong.Raising", "cannot be declared: the symbolic raised ValueError: no such mode"),
        ("Pair", "Wrong.Pair", "returns 1 tensor, but its symbolic 2 values; return as many"),
        (
            "list",
            "Wrong.Listed",
            "cannot be declared: the function takes a list of tensors, which symbolic does not see; pass each tensor "
            "by itself",
        ),
        (
            "InPlace",
            "Wrong.InPlace",
            "cannot be one node: it changes an input in place, and a node of ONNX cannot; work on a clone",
        ),
        (
            "Nested",
            "Wrong.Nested",
            "cannot be declared: its symbolic makes a my::Each with 1 graph inside; an If has two, and a Loop has one",
        ),
        (
            "size",
            "CustomReLU",
            "cannot be declared: the function takes a number that depends on the size of an input, and an attribute "
            "of a node is fixed; pass a tensor, or make the axis static",
        ),
        (
            "strict",
            "CustomReLU",
            "cannot be seen: torch.export captures the model in strict mode only; correct the cause of the failure "
            "with strict=False",
        ),
    ],
)
def test_what_cannot_be_declared_is_one_clear_error(kind: str, function: str, problem: str) -> None:
    """The error comes out of torch.onnx.export unchanged, and no model is made."""
    with hookpatch.active("symbolic_functions"), pytest.raises(NodeError) as caught:
        exported(Wrong(kind), torch.randn(3, 6), dynamic=1)
    assert str(caught.value) == f"plugin 'symbolic_functions': {__name__}.{function} {problem}"


def test_functions_without_symbolic_are_left_alone() -> None:
    """A function without symbolic is exported as the operators of forward."""

    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    class Doubling(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Plain.apply(x)

    with hookpatch.active("symbolic_functions"):
        assert ops(exported(Doubling(), torch.randn(3))) == {"Mul": 1}


def test_plugins_import_neither_torch_nor_onnx() -> None:
    """The plugins are loaded at interpreter start, and leave the imports of torch and onnx to the program."""
    program = (
        "import sys, hookpatch\n"
        "names = ['gelu_node', 'onnx_function', 'rmsnorm_node', 'symbolic_functions']\n"
        "session = hookpatch.active(*names, options={'onnx_function': {'functions': []}})\n"
        "with session: print([m for m in ('onnx', 'onnx_ir', 'torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"
