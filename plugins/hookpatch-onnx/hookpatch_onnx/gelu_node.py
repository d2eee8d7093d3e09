"""Each tanh-approximated GELU that a module writes out exports as one Gelu node, at opset 20 and later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import hookpatch
from hookpatch_onnx._export.during_export import during_export
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.receipt import Receipt, receipts_of
from hookpatch_onnx.errors import NodeError

NAME: Final = "gelu_node"

_OPSET_OF_GELU: Final = 20


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        strict: whether a GELU left without a node ends the export with an error.
        compare: whether a second, plain export is made, and compared with the model outside of the nodes.
    """

    strict: bool = False
    compare: bool = False


def mark_gelus(export: Export, options: Options) -> Iterator[hookpatch.Patch]:
    """Mark each call of a written-out GELU in the model as a region."""
    from hookpatch_onnx._nodes.gelu import writes_out_gelu  # torch is imported by now
    from hookpatch_onnx._nodes.written_out import written_out_gelus

    names = [name for name, module in export.modules(NAME) if writes_out_gelu(module)]
    if names and export.opset < _OPSET_OF_GELU:
        problem = (
            f"cannot be a Gelu node at opset {export.opset}; ONNX has it from opset {_OPSET_OF_GELU} on: export with "
        )
        problem += f"opset_version={_OPSET_OF_GELU} or higher, or without this plugin"
        raise NodeError(NAME, names[0], problem)
    export.want(NAME, bool(names))
    receipt = Receipt(NAME, "tanh-approximated GELUs", options.strict, written_out_gelus, names)
    receipt.compares = options.compare
    export.account(receipt)
    for name in names:
        yield hookpatch.wrap(
            hookpatch.Target.attribute(export.model.get_submodule(name), "forward"),
            _forward(export, name),
            why="torch exports it as eight nodes",
        )


def _forward(export: Export, name: str) -> Callable[..., Any]:
    from hookpatch_onnx._export.region import Region, is_in_operator, run_marked, tensors_in
    from hookpatch_onnx._nodes.gelu import refuted

    def build(place: Any) -> Sequence[Any]:
        (y,) = place.add_node("", "Gelu", place.inputs, {"approximate": "tanh"})
        y.type, y.shape = place.inputs[0].type, place.inputs[0].shape
        return [y]

    def forward(wrapped: Callable[..., Any], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_in_operator() or len(tensors_in(args, kwargs)) != 1:
            return wrapped(*args, **kwargs)  # a call with a bias, say, computes other results
        return run_marked(export, Region(NAME, name, build, True, refuted, name), wrapped, args, kwargs)

    return forward


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.onnx.export."""
    why = "torch exports the GELU of transformers as the eight nodes of its formula"
    yield during_export(
        NAME, partial(mark_gelus, options=options), why, "https://github.com/pytorch/pytorch/issues/105299"
    )


@hookpatch.hookimpl
def hookpatch_report(patches: Sequence[hookpatch.Patch]) -> list[str]:
    """Return a line for each export: how many GELUs became nodes, and the names of the others."""
    return receipts_of(patches)
