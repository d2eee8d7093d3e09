"""Evaluate calls of torch's own layers."""

from __future__ import annotations

import ast

import torch

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._torch_rules.names import LAST_BY_WEIGHT, PAIRS
from hookpatch_export._values.join import sequence
from hookpatch_export._values.tensor_sizes import first_tensor
from hookpatch_export._values.value import Args, Instance, Known, Seq, Tensor, Unknown, Value


def call_layer(frame: Frame, node: ast.AST, layer: Value, cls: type, args: Args) -> Value:
    """Return the result of one of torch's own layers."""
    name = cls.__name__
    first = first_tensor(args)
    if issubclass(cls, torch.nn.Sequential):
        value = args[0] if args else Unknown(Kind.CONFIG)
        for child in _children(layer):
            value = frame.walk.call(frame, node, child, [value], {})
        return value
    if name in PAIRS:
        return sequence(
            [Tensor(first.sizes, Kind.CONFIG, rank=first.rank), sequence([Tensor(first.sizes, Kind.CONFIG)] * 2)]
        )
    if name in LAST_BY_WEIGHT:
        grows = name == "Embedding" and first.rank is not None
        return Tensor(first.sizes, Kind.CONFIG, rank=(first.rank or 0) + 1 if grows else first.rank)
    if name.startswith("AdaptiveAvgPool"):
        return Tensor(first.sizes, Kind.CONFIG, rank=first.rank)
    if name.startswith(("Conv", "BatchNorm")) or "Pool" in name:
        return Tensor(first.sizes, first.sizes, rank=first.rank)
    if name == "Identity" and args:
        return args[0]
    keeps = "Drop" in name or "LU" in name or name in ("Tanh", "Sigmoid", "Softmax", "Mish", "Hardswish", "GroupNorm")
    return Tensor(first.sizes, first.last if keeps else first.sizes, rank=first.rank)


def _children(layer: Value) -> list[Value]:
    """Return the modules in a Sequential, a ModuleList or the values of a ModuleDict."""
    if isinstance(layer, Known):
        return [Known(child, Kind.CONFIG) for child in layer.obj._modules.values()]
    if isinstance(layer, Instance):
        items = layer.attributes.get("*")
        if isinstance(items, Seq):
            return list(items.items) if items.items is not None else [items.each]
    return []
