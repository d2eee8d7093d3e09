"""Export models with torch, read the nodes, and run a model in onnxruntime or the ONNX reference evaluator."""

from __future__ import annotations

import io
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy
import onnx
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator

_SAID_BY_TORCH: Final = "(?s).*(TorchScript|LeafSpec|The feature will be removed|aten::index operator of advanced)"


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore torch's warnings about the exporters; all other warnings remain errors."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning, UserWarning):
                warnings.filterwarnings("ignore", _SAID_BY_TORCH, kind)
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)
            yield
    finally:
        logging.disable(level)


def exported(model: Any, *args: torch.Tensor, dynamic: int = 0, **options: Any) -> onnx.ModelProto:
    """Return the model of torch.onnx.export, with the first ``dynamic`` axes of ``args`` dynamic."""
    if isinstance(model, torch.nn.Module):
        model.eval()
    with quiet():
        if options.get("dynamo", True):
            if isinstance(model, torch.nn.Module):
                options["dynamic_shapes"] = tuple(dict.fromkeys(range(dynamic), torch.export.Dim.DYNAMIC) for _ in args)
            proto: onnx.ModelProto = torch.onnx.export(model, args, verbose=False, **options).model_proto
            return proto
        names = [f"in{index}" for index in range(len(args))]
        axes = {name: {axis: f"axis{axis}" for axis in range(dynamic)} for name in names}
        file = io.BytesIO()
        torch.onnx.export(model, args, file, input_names=names, dynamic_axes=axes, **options)
        return onnx.load_model_from_string(file.getvalue())


def ops(model: onnx.ModelProto) -> Counter[str]:
    """Return the count of each operator in the graph, with the domain unless ONNX's own."""
    return Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.node)


def nodes(model: onnx.ModelProto, op_type: str) -> list[onnx.NodeProto]:
    """Return the nodes of an operator."""
    return [node for node in model.graph.node if node.op_type == op_type]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return a node's attributes by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def imports(model: onnx.ModelProto) -> dict[str, int]:
    """Return the versions of the domains imported by a model."""
    return {opset.domain: opset.version for opset in model.opset_import}


def ran(model: onnx.ModelProto, *args: torch.Tensor) -> list[numpy.ndarray[Any, Any]]:
    """Return the outputs of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[numpy.ndarray[Any, Any]] = session.run(None, _feed(model, args))
    return outputs


def evaluated(model: onnx.ModelProto, *args: torch.Tensor, new_ops: Any = None) -> list[numpy.ndarray[Any, Any]]:
    """Return the outputs of the reference evaluator, with custom operators."""
    outputs: list[numpy.ndarray[Any, Any]] = ReferenceEvaluator(model, new_ops=new_ops).run(None, _feed(model, args))
    return outputs


def _feed(model: onnx.ModelProto, args: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    return {value.name: arg.detach().numpy() for value, arg in zip(model.graph.input, args, strict=True)}
