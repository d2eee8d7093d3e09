"""The tanh-approximated GELUs of transformers export as one Gelu node each, at opset 20 and later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import hookpatch
from hookpatch_onnx._export.during_export import during_export, loaded
from hookpatch_onnx._export.export import Export
from hookpatch_onnx.errors import NodeError

NAME: Final = "gelu_node"

_OPSET_OF_GELU: Final = 20
_TOLERANCE: Final = 1e-5  # of float32, for inputs up to 20: the exact GELU is 5e-4 away, QuickGELU 2e-2


def mark_gelus(export: Export) -> Iterator[hookpatch.Patch]:
    """Have each call of such a GELU in the model be a region of its own."""
    found = {name: module for name, module in export.modules(NAME) if _is_registered(module) and _is_tanh_gelu(module)}
    if found and export.opset < _OPSET_OF_GELU:
        problem = (
            f"cannot be a Gelu node at opset {export.opset}; ONNX has it from opset {_OPSET_OF_GELU} on: export with "
        )
        problem += f"opset_version={_OPSET_OF_GELU} or higher, or without this plugin"
        raise NodeError(NAME, next(iter(found)), problem)
    export.want(NAME, bool(found))
    for name, module in found.items():
        yield hookpatch.wrap(
            hookpatch.Target.attribute(module, "forward"),
            _forward(export, name),
            why="torch exports it as eight nodes",
        )


def _is_registered(module: object) -> bool:
    """Return True if the class of a module is in transformers' registry of activations."""
    if (activations := loaded("transformers.activations")) is None:
        return False
    # dict.values: the registry's own look-up would make instances.
    entries: Iterator[Any] = iter(dict.values(activations.ACT2FN))
    return type(module) in [entry[0] if isinstance(entry, tuple) else entry for entry in entries]


def _is_tanh_gelu(module: Any) -> bool:
    """Return True if a module computes a tanh-approximated GELU, whatever the name of the class."""
    import torch

    x = torch.linspace(-20, 20, 4001)
    try:
        with torch.no_grad():
            difference = module(x) - torch.nn.functional.gelu(x, approximate="tanh")
    except Exception:  # the module takes other inputs
        return False
    return bool(difference.abs().max() < _TOLERANCE)


def _forward(export: Export, name: str) -> Callable[..., Any]:
    from hookpatch_onnx._export.region import Region, run_marked

    def build(place: Any) -> Sequence[Any]:
        (y,) = place.put("", "Gelu", place.inputs, {"approximate": "tanh"})
        y.type, y.shape = place.inputs[0].type, place.inputs[0].shape
        return [y]

    def forward(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_marked(export, Region(NAME, name, build, alike=True), wrapped, args, kwargs)

    return forward


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.onnx.export."""
    why = "a GELU that transformers writes out is exported as the eight nodes of its formula"
    yield during_export(mark_gelus, why, "https://github.com/pytorch/pytorch/issues/105299")
