"""Run a model in ONNX Runtime, and return values from its inside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import onnx

from hookpatch_onnx._measure.inputs import Feed
from hookpatch_onnx._measure.weights import Tensors
from hookpatch_onnx.errors import ModelRunError

_SOURCE: Final = re.compile(r"/\S+?\.(cc|h):\d+ .*?\) (?=[A-Z])")  # where in onnxruntime's C++ an error comes from


def values_of(tensors: Tensors, names: Iterable[str], feed: Feed) -> Mapping[str, Any]:
    """Return values of a model, by name: inputs, constants, and what nodes compute on an input.

    ONNX Runtime's own optimizations are off, so each node computes what the model says.

    Args:
        tensors: the model.
        names: the names of the values.
        feed: the input.

    Raises:
        ModelRunError: ONNX Runtime is not installed, or refuses the model.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]  # onnxruntime has no types
    except ImportError:
        problem = "onnxruntime is not installed; pip install onnxruntime, or leave --run out"
        raise ModelRunError(tensors.path, problem) from None
    wanted = dict.fromkeys(names)
    values = {name: feed[name] for name in wanted if name in feed}
    values |= {name: tensors.array(name) for name in wanted if name in tensors}
    computed = [name for name in wanted if name not in values]
    model = onnx.ModelProto()
    model.CopyFrom(tensors.model)
    declared = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in computed if name not in declared)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # only what ends the run: an error is raised anyway
    folder = str(tensors.path.absolute().parent)
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(computed, dict(feed))
    except Exception as error:  # onnxruntime has a class of errors for each status
        problem = f"ONNX Runtime refuses: {_SOURCE.sub('', ' '.join(str(error).split()))[:300]}"
        raise ModelRunError(tensors.path, problem) from None
    return values | dict(zip(computed, results, strict=True))
