"""Evaluate torch's functions on tensors, and methods, attributes and items of tensors. Nothing runs."""

from __future__ import annotations

import ast
from dataclasses import replace

from hookpatch_export._findings.finding import Kind
from hookpatch_export._frames.frame import Frame
from hookpatch_export._torch_rules.names import (
    ANSWERS,
    NUMBERS,
    OF_THE_EXAMPLE,
    OF_THE_EXAMPLE_CALLED,
    PARTS,
    RANDOM,
    SIZED_BY_NUMBERS,
)
from hookpatch_export._torch_rules.results import parts_of, result, sizes_given
from hookpatch_export._values.questions import alternatives, content_kind, has_tensor
from hookpatch_export._values.tensor_sizes import first_tensor, size_at, sizes_of, values_of
from hookpatch_export._values.value import CONFIG, Args, Keywords, Known, Scalar, Seq, Size, Tensor, Unknown, Value


def attribute_of_tensor(tensor: Tensor, name: str) -> Value | None:
    """Return the value of a tensor's attribute; None if the name is a method."""
    if name == "shape":
        return Size(tensor.sizes, tensor.last)
    if name == "ndim" and tensor.rank is not None:
        return Known(tensor.rank, Kind.CONFIG)
    if name in OF_THE_EXAMPLE:
        return CONFIG
    if name in ("T", "mT", "H", "mH"):
        return Tensor(tensor.sizes, tensor.sizes, tensor.truth, tensor.rank)
    return tensor if name in ("data", "real", "imag", "grad") else None


def call_on_tensors(frame: Frame, node: ast.AST, name: str, args: Args, named: Keywords) -> Value:
    """Return the result of a tensor's method or a function of torch.

    Args:
        frame: the frame of the caller.
        node: the call.
        name: the name of the function or method.
        args: the positional arguments; of a method the tensor comes first.
        named: the keyword arguments.
    """
    arguments = [*args, *named.values()]
    sizes = max(map(sizes_of, arguments), default=Kind.CONFIG)
    first = first_tensor(arguments)
    if name in ("size", "shape"):
        return _size(first, args[1:] or list(named.values()))
    if name in ("numel", "nelement", "__len__"):
        return Scalar(first.sizes)
    if name == "dim" and first.rank is not None:
        return Known(first.rank, Kind.CONFIG)
    if name == "stride":
        return Size(first.sizes, Kind.CONFIG)
    if name == "broadcast_shapes":
        kind = max(map(content_kind, arguments), default=Kind.CONFIG)
        return Size(kind, kind)
    if name in OF_THE_EXAMPLE_CALLED:
        return CONFIG
    if name in NUMBERS or name in ANSWERS:
        kind = max(Kind.SHAPE, values_of(args))
        frame.report(node, f".{name}()" if name in NUMBERS else f"torch.{name}()", kind)
        return Scalar(kind)
    if name in ("tolist", "numpy", "__array__"):
        frame.report(node, f".{name}()", Kind.DATA)
        return Seq(None, Scalar(Kind.DATA), sizes) if name == "tolist" else Unknown(Kind.DATA)
    if name in ("tensor", "as_tensor", "scalar_tensor") and not has_tensor(args[0] if args else CONFIG):
        kind = content_kind(args[0]) if args else Kind.CONFIG
        if kind >= Kind.SHAPE:
            frame.report(node, f"torch.{name}()", kind)
        return Tensor(Kind.CONFIG, Kind.CONFIG, values=values_of(args[:1]))
    if name in ("tensor", "as_tensor") and args and isinstance(args[0], Seq):
        frame.report(node, f"torch.{name}()", Kind.DATA)
        return Tensor(content_kind(args[0]), Kind.CONFIG)
    if _sized_by_numbers(name, args, named):
        frame.report(node, f"{name}()", Kind.DATA)
        return Tensor(Kind.DATA, Kind.CONFIG if name in ("nonzero", "argwhere") else Kind.DATA)
    sizes_passed = sizes_given(name, args, named)
    tensors = [size for size in sizes_passed if all(isinstance(part, Tensor) for part in alternatives(size))]
    if tensors and (kind := values_of(tensors)) >= Kind.SHAPE:
        frame.report(node, "size from a tensor", kind)
        sizes = max(sizes, kind)
    if name in PARTS:
        return parts_of(name, first, args, named)
    tensor = result(name, first, sizes, args, named)
    return tensor if name in RANDOM else replace(tensor, values=values_of(arguments))


def _sized_by_numbers(name: str, args: Args, named: Keywords) -> bool:
    if name == "where":
        return len(args) + len(named) == 1
    if name == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else named.get("repeats", args[0] if args else CONFIG)
        return isinstance(repeats, Tensor) and "output_size" not in named
    return name in SIZED_BY_NUMBERS


def _size(tensor: Tensor, args: Args) -> Value:
    if not args:
        return Size(tensor.sizes, tensor.last)
    dim = args[0].obj if isinstance(args[0], Known) else None
    return Scalar(size_at(tensor, dim))


def indexed(frame: Frame, node: ast.AST, tensor: Tensor, index: Value) -> Value:
    """Return the value of ``tensor[index]``."""
    parts = index.items if isinstance(index, Seq) and index.items is not None else (index,)
    if any(
        isinstance(alternative, Tensor) and alternative.truth for part in parts for alternative in alternatives(part)
    ):
        frame.report(node, "[mask]", Kind.DATA)
        return Tensor(Kind.DATA, tensor.last if len(parts) == 1 else Kind.DATA)
    sizes = max([tensor.sizes, *map(sizes_of, parts)])
    last = tensor.last
    if isinstance(index, Seq):
        ends = parts[-1]
        if isinstance(ends, Known) and ends.obj is None:
            last = Kind.CONFIG
        elif not (isinstance(ends, Known) and (ends.obj is Ellipsis or ends.obj == slice(None))):
            last = sizes if not isinstance(ends, Unknown) else max(tensor.last, ends.kind)
    return Tensor(sizes, last, tensor.truth, values=values_of([tensor, *parts]))
