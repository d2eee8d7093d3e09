"""An autograd.Function with a symbolic method exports as the node it declares, with both of torch's exporters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import hookpatch
from hookpatch_onnx._export.during_export import during_export
from hookpatch_onnx._export.export import Export
from hookpatch_onnx._export.receipt import Receipt, receipts_of
from hookpatch_onnx.errors import NodeError

NAME: Final = "symbolic_functions"


def mark_functions(export: Export) -> Iterator[hookpatch.Patch]:
    """Have each application of such a function be a region of its own. TorchScript's exporter needs no help."""
    if not export.dynamo or export.is_captured(NAME):
        return
    export.account(Receipt(NAME, "calls of functions with symbolic"))
    why = "torch.export goes into forward, and never asks for symbolic"
    yield hookpatch.wrap("torch.autograd.function:Function.apply", _apply(export), reach="everywhere", why=why)
    why = "torch.export's strict mode does not come by Function.apply"
    strict = "torch._dynamo.variables.misc:AutogradFunctionVariable.call_apply"
    yield hookpatch.wrap(strict, _refuse(export), why=why)


def _apply(export: Export) -> Callable[..., Any]:
    import torch  # here by now

    from hookpatch_onnx._export.region import Region, run_marked
    from hookpatch_onnx._nodes.symbolic import declared_nodes, without_tensors

    def apply(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not hasattr(instance, "symbolic"):
            return wrapped(*args, **kwargs)
        part = _name(instance)
        if any(isinstance(arg, torch.SymInt | torch.SymFloat | torch.SymBool) for arg in args):
            problem = (
                "cannot be declared: the function takes a number that depends on the size of an input, and an "
                "attribute of a "
            )
            problem += "node is fixed; pass a tensor, or make the axis static"
            raise export.refuse(NodeError(NAME, part, problem))
        export.want(NAME)
        build = partial(declared_nodes, function=instance, args=without_tensors(args), part=part)
        return run_marked(export, Region(NAME, part, build), wrapped, args, kwargs)

    return apply


def _refuse(export: Export) -> Callable[..., Any]:
    def call_apply(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if hasattr(instance.fn_cls, "symbolic"):
            problem = (
                "cannot be seen: torch.export captures the model in strict mode only; correct the cause of the failure "
            )
            raise export.refuse(NodeError(NAME, _name(instance.fn_cls), problem + "with strict=False"))
        return wrapped(*args, **kwargs)

    return call_apply


def _name(function: type) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@hookpatch.hookimpl
def hookpatch_patches() -> Iterator[hookpatch.Patch]:
    """Take part in each call of torch.onnx.export."""
    why = "with dynamo=True torch drops what symbolic declares, in silence"
    upstream = "no issue is known: torch has custom_translation_table= for operators, and nothing for functions"
    yield during_export(NAME, mark_functions, why, upstream)


@hookpatch.hookimpl
def hookpatch_report(patches: Sequence[hookpatch.Patch]) -> list[str]:
    """Return a line for each export: how many calls became nodes."""
    return receipts_of(patches)
