"""Export a model a second time without the plugins, and compare the two models outside of the plugins' nodes."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import onnx
import onnx_ir as ir
import torch

import hookpatch
from hookpatch_onnx._export.export import Export, State
from hookpatch_onnx._model.weights import digests, taken_apart
from hookpatch_onnx._outside.above import Stand
from hookpatch_onnx._outside.outside import Outside
from hookpatch_onnx._outside.side import Side, first_name, has_module, module_of
from hookpatch_onnx.errors import NodeError

_MOST: Final = 3  # differences named; the others are counted
_ONCE: Final = ("report", "verify", "profile", "dump_exported_program")  # files and work that the first export did


def compare_with_plain(
    export: Export, exporter: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Add to the receipts whether the model is the plain export, but for the nodes of the plugins.

    Raises:
        NodeError: the model differs, or could not be compared, and a plugin that compares is strict.
    """
    assert export.finished is not None
    assert export.state is not None  # as Export.close has seen to
    bound = inspect.signature(exporter).bind(*args, **kwargs)
    bound.arguments |= {"f": None if export.dynamo else io.BytesIO(), "verbose": False}
    for word in _ONCE:
        bound.arguments.pop(word, None)
    after = State.of(export.model)
    export.state.restore(export.model)
    try:
        with warnings.catch_warnings(record=True):  # not ignored: where a warning is an error, torch behaves otherwise
            plain = _exported(export, exporter, bound)
        names = export.first_names()
        outside = Outside(Side(export.finished, export.digests), plain, _stands(export, names), names, _dropped(export))
        remark, is_plain = _remark(outside), not outside.differences
    except Exception as error:  # of torch: the export was successful, and remains so for a plugin that is not strict
        is_plain = False
        remark = f"not compared with the plain export: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    finally:
        after.restore(export.model)
    for receipt in export.receipts.values():
        if receipt.compares:
            receipt.remarks.append(remark)
            if receipt.is_strict and not is_plain:
                problem = f"is written, but refused: {remark}; strict=false makes a remark of the refusal"
                raise export.refuse(NodeError(receipt.plugin, "the model", problem))


def _exported(export: Export, exporter: Callable[..., Any], bound: inspect.BoundArguments) -> Side:
    """Return the plain model."""
    if export.dynamo:
        program = exporter(*bound.args, **bound.kwargs)
        nodes = [node for graph in _graph_modules(program.exported_program) for node in graph.graph.nodes]
        calls = {node.name: [*stack] for node in nodes if (stack := node.meta.get("nn_module_stack"))}
        return Side(program.model, {}, calls)
    sides: list[Side] = []

    def keep(wrapped: Callable[..., None], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        light, weights = taken_apart(memoryview(args[0]))
        sides.append(Side(ir.from_proto(onnx.load_model_from_string(light)), digests(weights)))

    file = "torch.onnx._internal.torchscript_exporter.onnx_proto_utils:_export_file"
    patch = hookpatch.wrap(file, keep, why="the plain model is compared, and not written")
    with hookpatch.active(patch, scope="task", children="local"):
        exporter(*bound.args, **bound.kwargs)
    return sides[0]


def _graph_modules(program: torch.export.ExportedProgram) -> Iterator[torch.fx.GraphModule]:
    return (part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule))


def _stands(export: Export, names: Mapping[str, str]) -> dict[ir.Node, Stand]:
    """Return what each node of a plugin stands for.

    In a block of ``torch.no_grad()`` torch.export forgets the modules: their nodes are said to be of an outer module.
    """
    stands = {}
    for node, number in export.made.items():
        module, origin = export.regions[number].module, module_of(node)
        is_whole = module is not None and (not has_module(node) or first_name(origin, names) == names.get(module))
        stands[node] = Stand(number, module if is_whole and module is not None else origin, is_whole)
    return stands


def _dropped(export: Export) -> set[str]:
    """Return the modules of regions whose result the model does not use."""
    numbers = export.regions.keys() - export.made.values() - export.refuted.keys()
    return {module for number in numbers if (module := export.regions[number].module) is not None}


def _remark(outside: Outside) -> str:
    differences = outside.differences
    if not differences:
        return f"all other {outside.equal} nodes are those of the plain export"
    ending = f", and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
    return f"elsewhere the model differs from the plain export: {', '.join(differences[:_MOST])}{ending}"
