"""Run a model with ONNX Runtime: exported, with torch's number of threads, inputs and outputs on torch's device."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.utils.dlpack
from torch.utils import _pytree as pytree

from hookpatch_torchscript._runtimes.jobs.requirements import ONNX, NotHereError, without_packages, without_provider

if TYPE_CHECKING:
    from hookpatch_torchscript._runtimes.measure.factory import Built

_PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_OPTIONS: Final = {"CUDAExecutionProvider": {"use_tf32": "0"}}  # as in torch here, see ``measure.py``


def onnxruntime_call(built: Built) -> Callable[[], list[torch.Tensor]]:
    """Return a function that runs the exported model; each call makes new outputs, as torch does, and copies no inputs.

    Raises:
        NotHereError: a package is missing, or ONNX Runtime has no provider for the device.
    """
    if missing := without_packages(ONNX):
        raise NotHereError(missing)
    import onnxruntime  # type: ignore[import-untyped]  # untyped

    leaves = pytree.tree_leaves((built.inputs, dict(built.keywords)))
    device = next((leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)), torch.device("cpu"))
    provider = _PROVIDERS[device.type]
    if lacking := without_provider(provider, onnxruntime.__version__, onnxruntime.get_available_providers()):
        raise NotHereError(lacking)
    session = _session(built, provider)
    if lacking := without_provider(provider, onnxruntime.__version__, session.get_providers()):
        raise NotHereError(lacking)  # the provider could not be loaded; ONNX Runtime would fall back to the CPU
    return running(session, _paired(session, built), device)


def _session(built: Built, provider: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program = torch.onnx.export(
            built.model, built.inputs, kwargs=dict(built.keywords), dynamo=True, verbose=False, external_data=True
        )
        assert program is not None  # always a program with dynamo=True
        program.save(path, external_data=True)
        del program
        return onnxruntime.InferenceSession(path, options, providers=[(provider, _OPTIONS.get(provider, {}))])


def _paired(session: Any, built: Built) -> list[tuple[Any, torch.Tensor]]:
    """Return the inputs of the graph with their tensors: keywords by name, the rest in order."""
    in_order = iter([leaf for leaf in pytree.tree_leaves(built.inputs) if isinstance(leaf, torch.Tensor)])
    of_keywords = iter([leaf for leaf in pytree.tree_leaves(dict(built.keywords)) if isinstance(leaf, torch.Tensor)])
    pairs = []
    for declared in session.get_inputs():
        by_name = built.keywords.get(declared.name)
        tensor = by_name if isinstance(by_name, torch.Tensor) else next(in_order, None)
        pairs.append((declared, (next(of_keywords) if tensor is None else tensor).contiguous()))
    return pairs


def running(
    session: Any, pairs: list[tuple[Any, torch.Tensor]], device: torch.device
) -> Callable[[], list[torch.Tensor]]:
    """Return a function that runs a session on tensors in place.

    Args:
        session: an ``onnxruntime.InferenceSession``.
        pairs: the inputs of the session, each with its tensor.
        device: the device of the inputs and outputs.
    """
    import onnx

    binding = session.io_binding()
    index = device.index or 0
    for declared, tensor in pairs:
        kind = onnx.TensorProto.DataType.Value(declared.type[len("tensor(") : -1].upper())
        binding.bind_input(declared.name, device.type, index, kind, list(tensor.shape), tensor.data_ptr())
    outputs = [output.name for output in session.get_outputs()]

    def call(_pairs: object = pairs) -> list[torch.Tensor]:  # keeps the tensors alive while in use
        for name in outputs:
            binding.bind_output(name, device.type, index)  # each time: else the session overwrites earlier outputs
        session.run_with_iobinding(binding)
        return [torch.utils.dlpack.from_dlpack(value) for value in binding.get_outputs()]

    return call
