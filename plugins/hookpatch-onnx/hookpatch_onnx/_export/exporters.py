"""Patch torch's two ONNX exporters during an export: translate marks, and replace marked regions by nodes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch

import hookpatch
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.proofs import prove
from hookpatch_onnx._export.region import BEGIN, DOMAIN, END
from hookpatch_onnx._export.rewrite import rewrite
from hookpatch_onnx._export.traced_marks import join_marks, merge_beside_marks
from hookpatch_onnx._model.weights import digests, joined, taken_apart
from hookpatch_onnx.errors import NodeError


def exporter_patches(export: Export) -> Iterator[hookpatch.Patch]:
    """Yield the patches for the exporter that the call will use."""
    core = "torch.onnx._internal.exporter"
    if not export.dynamo:
        yield hookpatch.wrap(
            "torch.onnx._internal.torchscript_exporter.onnx_proto_utils:_export_file",
            _after_torchscript(export),
            why="the model is done here, and not yet in a file",
        )
        yield hookpatch.wrap("torch._C:_jit_pass_cse", _merge, why="torch merges few operations beside a mark")
        return
    yield hookpatch.wrap(
        f"{core}._core:_exported_program_to_onnx_program", _translate(export), why="the marks are translated here"
    )
    strategies = f"{core}._capture_strategies"
    yield hookpatch.wrap(
        f"{strategies}:TorchExportNonStrictStrategy._capture", _see_failure(export), why="the marks can be put here"
    )
    yield hookpatch.wrap(
        f"{strategies}:TorchExportStrictStrategy._capture", _unless_refused(export), why="the marks cannot be put here"
    )
    # Regions are replaced after the last of two steps: both inline local functions, and know ONNX's operators only.
    if export.optimize:
        last = hookpatch.Target(f"{core}._onnx_program:ONNXProgram.optimize")
        yield hookpatch.wrap(last, _after_optimize(export), why="the model is done here")
    else:
        lazy: Any = importlib.import_module("torch.onnx._internal._lazy_import").onnxscript_apis
        apis = importlib.import_module(lazy._name)  # the APIs for this release of torch
        last = hookpatch.Target.attribute(apis, "convert_version")
        yield hookpatch.wrap(last, _after_convert_version(export), why="the model is done here")


def _merge(wrapped: Callable[[Any], bool], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return merge_beside_marks(args[0], wrapped)


def _see_failure(export: Export) -> Callable[..., Any]:
    """Refuse the export if the non-strict capture fails: torch would try strict mode, where nothing can be marked."""

    def capture(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return wrapped(*args, **kwargs)
        except Exception as error:
            if export.wanted and export.refusal is None:
                reason = str(error).strip().partition("\n")[0]
                problem = "cannot be captured with strict=False, the only mode that lets hookpatch-onnx mark nodes: "
                problem += f"{type(error).__name__}: {reason}"
                refusal = NodeError(min(export.wanted), "the model", problem)
                refusal.__cause__ = error
                export.refuse(refusal)
            raise

    return capture


def _unless_refused(export: Export) -> Callable[..., Any]:
    def capture(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if export.refusal is not None:
            raise export.refusal
        return wrapped(*args, **kwargs)

    return capture


def _after_torchscript(export: Export) -> Callable[..., None]:
    def write(wrapped: Callable[..., None], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not (export.regions or export.receipts):
            return wrapped(*args, **kwargs)
        serialized, file, *_ = args
        light, weights = taken_apart(memoryview(serialized))
        model = ir.from_proto(onnx.load_model_from_string(light))
        if export.state is not None:
            export.digests = digests(weights)
        join_marks(model)
        rewrite(model, export)
        opened: Any = torch.serialization._open_file_like
        with opened(file, "wb") as stream:
            for piece in joined(ir.to_proto(model), weights):
                stream.write(piece)

    return write


def _after_optimize(export: Export) -> Callable[..., None]:
    def optimize(wrapped: Callable[..., None], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        wrapped(*args, **kwargs)
        rewrite(instance.model, export)

    return optimize


def _after_convert_version(export: Export) -> Callable[..., ir.Model]:
    def convert(
        wrapped: Callable[..., ir.Model], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ir.Model:
        model = wrapped(*args, **kwargs)
        rewrite(model, export)
        return model

    return convert


def _translate(export: Export) -> Callable[..., Any]:
    def translate(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from torch.onnx._internal.exporter import _registration

        prove(export, args[0])
        marks = torch.ops.hookpatch_onnx
        targets: dict[Any, Any] = {marks.begin.default: _begin_node, marks.end.default: _end_node}
        for target, function in targets.items():
            # Not register_op, which looks for a signature and logs that none is found.
            meta = _registration.OnnxDecompMeta(function, target, None, is_custom=True, skip_signature_inference=True)
            kwargs["registry"]._register(target, meta)
        program = wrapped(*args, **kwargs)
        _unmark(program.exported_program.graph_module)
        return program

    return translate


def _begin_node(inputs: Sequence[ir.Value], region: int) -> Sequence[ir.Value]:
    return _mark(BEGIN, inputs, len(inputs), region=region)


def _end_node(inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], region: int) -> Sequence[ir.Value]:
    return _mark(END, [*inputs, *outputs], len(outputs), region=region, taken=len(inputs))


def _mark(kind: str, inputs: Sequence[ir.Value], outputs: int, **attributes: int) -> Sequence[ir.Value]:
    from torch.onnx._internal.exporter import _core

    ir_attributes = [ir.AttrInt64(name, value) for name, value in attributes.items()]
    node = ir.Node(DOMAIN, kind, inputs, ir_attributes, num_outputs=outputs, version=1)
    tracer: Any = _core.current_tracer  # of the running translation
    tracer.nodes.append(node)
    return node.outputs


def _unmark(module: torch.fx.GraphModule) -> None:
    """Remove the marks from a captured program, which the caller keeps."""
    marks = {torch.ops.hookpatch_onnx.begin.default: 0, torch.ops.hookpatch_onnx.end.default: 1}
    for submodule in module.modules():
        if not isinstance(submodule, torch.fx.GraphModule):
            continue
        for node in [node for node in submodule.graph.nodes if node.target in marks]:
            through: Any = node.args[marks[node.target]]
            for user in list(node.users):  # the items of the list that the mark returns
                user.replace_all_uses_with(through[user.args[1]])
                submodule.graph.erase_node(user)
            submodule.graph.erase_node(node)
        submodule.recompile()
