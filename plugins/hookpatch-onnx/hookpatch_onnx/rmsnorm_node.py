"""Each RMSNorm of a model exports as one node, at every opset and with both of torch's exporters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import hookpatch
from hookpatch_onnx._export.during_export import during_export
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.receipt import Receipt, inlined, receipts_of

NAME: Final = "rmsnorm_node"
_REFUSED: Final = "onnxruntime runs it; export with opset_version=23 or higher, or with rmsnorm_node.domain"


@dataclass(frozen=True)
class Options:
    """The options of the plugin.

    Attributes:
        domain: a custom domain for the nodes. Empty: ONNX's own ``RMSNormalization`` at opset 23 and later, and the
            ``SimplifiedLayerNormalization`` of onnxruntime at earlier opsets.
        op_type: the name of the nodes in the custom domain.
        body: whether the model has a local function with the formula of the node, for runtimes without the operator. A
            runtime with the operator needs no function, and may prefer the function.
        strict: whether a norm left without a node ends the export with an error.
        compare: whether a second, plain export is made, and compared with the model outside of the nodes.
    """

    domain: str = ""
    op_type: str = "RMSNormalization"
    body: bool = True
    strict: bool = False
    compare: bool = False

    def __post_init__(self) -> None:
        if not self.op_type or (not self.domain and self.op_type != Options.op_type):
            raise ValueError("'op_type' names an operator of one's own domain; give 'domain', too")


def mark_norms(export: Export, options: Options) -> Iterator[hookpatch.Patch]:
    """Mark each call of an RMSNorm of the model as a region."""
    from hookpatch_onnx._nodes.rmsnorm import rmsnorms, why_no_rmsnorm  # torch is imported by now
    from hookpatch_onnx._nodes.written_out import written_out_norms

    modules = dict(export.modules(NAME))
    norm_modules = {name: (module, norms) for name, module in modules.items() if (norms := rmsnorms(module))}
    export.want(NAME, bool(norm_modules))
    receipt = Receipt(NAME, "norm-like parts", options.strict, written_out_norms, [*norm_modules])
    receipt.compares, receipt.refused = options.compare, _REFUSED
    if norm_modules and options.domain and options.body:
        receipt.remarks.append(inlined(f"{options.domain}::{options.op_type}", "export with rmsnorm_node.body=false"))
    reasons = {
        name: why for name, module in modules.items() if name not in norm_modules and (why := why_no_rmsnorm(module))
    }
    receipt.miss(reasons)
    export.account(receipt)
    for name, (module, norms) in norm_modules.items():
        yield hookpatch.wrap(
            hookpatch.Target.attribute(module, "forward"),
            _forward(export, options, name, norms),
            why="torch exports it as seven nodes",
        )


def _forward(export: Export, options: Options, name: str, norms: Any) -> Callable[..., Any]:
    import torch

    from hookpatch_onnx._export.proofs import untraced
    from hookpatch_onnx._export.region import Region, is_in_operator, run_marked
    from hookpatch_onnx._nodes.rmsnorm import refuted
    from hookpatch_onnx._nodes.rmsnorm_nodes import put_norm, takes_weight

    def forward(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_in_operator():
            return wrapped(*args, **kwargs)
        arguments: list[Any] = [arg for arg in (*args, *kwargs.values()) if arg is not None]
        if len(arguments) != 1 or (norm := norms.get(getattr(arguments[0], "dtype", None))) is None:
            return wrapped(*args, **kwargs)  # a call with a gate, say, computes other results
        shape = untraced(lambda: arguments[0].shape[-norm.axes :])  # TorchScript reads no shape inside of torch.vmap
        dtype = arguments[0].dtype
        weight = next(instance.parameters(), None)
        inputs = [arguments[0], weight] if takes_weight(norm, weight, dtype) else arguments
        build = partial(put_norm, norm=norm, options=options, module=instance, name=name, shape=shape, dtype=dtype)

        def run(x: torch.Tensor, *_: torch.Tensor) -> Any:
            new = [x if arg is arguments[0] else arg for arg in args]
            return wrapped(*new, **{key: x if arg is arguments[0] else arg for key, arg in kwargs.items()})

        refute = partial(refuted, module=instance, norm=norm)
        region = Region(NAME, name, build, alike=norm.dtype == dtype, refute=refute, module=name)
        return run_marked(export, region, run, inputs)

    return forward


@hookpatch.hookimpl
def hookpatch_patches(options: Options) -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.onnx.export."""
    why = "an RMSNorm is exported as seven nodes, and each node gets its own quantizer"
    # The change of torch is for torch's own rms_norm, at opset 23.
    yield during_export(
        NAME, partial(mark_norms, options=options), why, "https://github.com/pytorch/pytorch/pull/159377"
    )


@hookpatch.hookimpl
def hookpatch_report(patches: Sequence[hookpatch.Patch]) -> list[str]:
    """Return a line for each export: how many norms became nodes, and the names of the others."""
    return receipts_of(patches)
