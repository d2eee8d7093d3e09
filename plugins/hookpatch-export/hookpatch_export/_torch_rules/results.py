"""Compute the tensor that a function of torch returns: its sizes, its last size and its rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hookpatch_export._findings.finding import Kind
from hookpatch_export._torch_rules.names import CASTS, KEEPS_LAST, MADE, RANGES, RESHAPED, SIZED, TRUTHS, WIDTHS
from hookpatch_export._values.questions import content_kind, truth_kind
from hookpatch_export._values.tensor_sizes import first_tensor
from hookpatch_export._values.value import CONFIG, Args, Keywords, Known, Scalar, Seq, Size, Tensor, Value

_MOST_SIZES: Final = 6  # dimensions of a tensor; more arguments than that are not sizes


def result(name: str, first: Tensor, sizes: Kind, args: Args, named: Keywords) -> Tensor:
    """Return the tensor that a tensor's method or a function of torch returns.

    Args:
        name: the name of the function or method.
        first: the first tensor among the arguments.
        sizes: the kind of the sizes of all arguments.
        args: the positional arguments; of a method the tensor comes first.
        named: the keyword arguments.
    """
    truth = name in TRUTHS
    if name in MADE or name in RESHAPED:
        return _of_sizes(name, first, sizes, args, named)
    if name in ("linear", "embedding", "layer_norm", "rms_norm"):
        return Tensor(sizes, Kind.CONFIG, rank=first.rank)
    if name in ("matmul", "bmm", "mm") and len(args) == 2:
        second = first_tensor(args[1:])
        return Tensor(sizes, second.last, rank=max(first.rank, second.rank) if first.rank and second.rank else None)
    if name == "transpose" and len(args) == 3:
        return _transposed(first, sizes, args)
    if name == "unsqueeze":
        last = Kind.CONFIG if _dim(args, named, 1) in (-1, first.rank) else first.last
        return Tensor(sizes, last, first.truth, None if first.rank is None else first.rank + 1)
    if name in ("cat", "concat", "stack", "concatenate") and args and isinstance(args[0], Seq):
        return _put_together(args[0], sizes, args, named)
    if name.rstrip("_") in KEEPS_LAST:
        return Tensor(sizes, first.last, truth or (first.truth and name not in CASTS), first.rank)
    if name == "scaled_dot_product_attention":
        values = args[2:3] or [named[key] for key in ("value",) if key in named]
        return Tensor(sizes, first_tensor(values).last, rank=first.rank)
    return Tensor(sizes, sizes, truth)


def sizes_given(name: str, args: Args, named: Keywords) -> Sequence[Value]:
    """Return the sizes passed to a function that makes, reshapes or pads a tensor, one by one or in a tuple."""
    if name in MADE:
        words = args[:1] if name == "full" else args
    elif name in RESHAPED or name in SIZED:
        words = args[1:2] if name in ("new_full", "pad") else args[1:]
    else:
        return ()
    words = [*words, *(named[key] for key in WIDTHS if key in named)]
    return [size for word in words for size in (_each_size(word) if isinstance(word, Seq) else [word])]


def _of_sizes(name: str, first: Tensor, sizes: Kind, args: Args, named: Keywords) -> Tensor:
    """Return the tensor made or reshaped to the sizes passed: one by one, or all in a tuple."""
    words: list[Value] = [arg for arg in (args if name in MADE else args[1:]) if not isinstance(arg, Tensor)]
    words = words or [arg for key, arg in named.items() if key in ("size", "shape")]
    if name in ("full", "new_full"):
        words = words[:1]
    if name == "randint":
        words = words[-1:]
    rank = len(words) if 0 < len(words) <= _MOST_SIZES else None
    if len(words) == 1 and isinstance(words[0], Seq | Size):
        rank = len(words[0].items) if isinstance(words[0], Seq) and words[0].items is not None else None
        words = list(_each_size(words[0]))
    if name in RANGES:
        kind = max(map(content_kind, words), default=Kind.CONFIG)
        return Tensor(kind, kind, rank=1)
    last = _asked_for(words[-1], first) if words else sizes
    if name in MADE or name.startswith("new_"):
        sizes = max([last, *(_asked_for(word, first) for word in words)])
    return Tensor(sizes, last, rank=rank)


def _transposed(first: Tensor, sizes: Kind, args: Args) -> Tensor:
    dims = [arg.obj for arg in args[1:] if isinstance(arg, Known) and isinstance(arg.obj, int)]
    # Of unknown rank: a layer has fixed the last size of (batch, ..., features), and heads were split off.
    rank = first.rank or (4 if first.last <= Kind.CONFIG else 0)
    untouched = all(0 <= dim < rank - 1 or dim < -1 for dim in dims)
    return Tensor(sizes, first.last if untouched and len(dims) == 2 else sizes, first.truth, first.rank)


def _put_together(several: Seq, sizes: Kind, args: Args, named: Keywords) -> Tensor:
    part = first_tensor([several.each])
    if several.length >= Kind.SHAPE:
        sizes = max(sizes, several.length)
    last = max(part.last, several.length) if _is_last(_dim(args, named, 1), part) else part.last
    return Tensor(sizes, last, part.truth, part.rank)


def parts_of(name: str, first: Tensor, args: Args, named: Keywords) -> Seq:
    """Return the tensors that ``split``, ``chunk``, ``unbind`` and the like return.

    Args:
        name: the name of the function or method.
        first: the tensor that is split.
        args: the positional arguments; the tensor comes first.
        named: the keyword arguments.
    """
    dim = _dim(args, named, 1 if name == "unbind" else 2)
    rank = None if first.rank is None else first.rank - (name == "unbind")
    how = args[1] if len(args) > 1 else next(iter(named.values()), CONFIG)
    part = Tensor(first.sizes, first.last, first.truth, rank)
    if isinstance(how, Seq) and name != "unbind":
        if how.items is not None:
            return Seq((part,) * len(how.items), part)
        return Seq(None, part, how.length)
    if "chunk" in name or (name == "tensor_split" and not isinstance(how, Tensor)):
        if isinstance(how, Known) and isinstance(how.obj, int) and 0 < how.obj <= 8:
            return Seq((part,) * how.obj, part)
        return Seq(None, part, truth_kind(how))
    return Seq(None, part, first.last if _is_last(dim, first) else first.sizes)


def _dim(args: Args, named: Keywords, place: int) -> object:
    """Return the dimension passed; 0 if none is, and an object unequal to every dimension if it is not known."""
    value = named.get("dim", args[place] if len(args) > place else None)
    if value is None:
        return 0
    return value.obj if isinstance(value, Known) else object()


def _is_last(dim: object, tensor: Tensor) -> bool:
    """Return True if a dimension is certainly a tensor's last one."""
    return dim in (-1, None if tensor.rank is None else tensor.rank - 1)


def _each_size(words: Seq | Size) -> Sequence[Value]:
    if isinstance(words, Size):
        return [Scalar(words.sizes), Scalar(words.last)]
    return words.items if words.items is not None else [words.each]


def _asked_for(value: Value, first: Tensor) -> Kind:
    """Return the kind of a size passed; -1 is the size left over."""
    if isinstance(value, Known) and value.obj == -1:
        return first.sizes
    return max(content_kind(value), Kind.CONFIG)
