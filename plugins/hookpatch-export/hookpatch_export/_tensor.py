"""What torch's own functions, methods and layers give: facts of torch 2.13, none of them runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

import torch

from hookpatch_export._finding import Kind
from hookpatch_export._frame import Frame
from hookpatch_export._join import each_of, join, sequence
from hookpatch_export._question import alternatives, content_kind, has_tensor, truth_kind
from hookpatch_export._value import CONFIG, Args, Instance, Keywords, Known, Scalar, Seq, Size, Tensor, Unknown, Value


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OF_THE_EXAMPLE: Final = _words(
    """dtype device layout is_cuda is_cpu is_mps is_xpu is_sparse is_quantized is_meta is_nested requires_grad ndim
    grad_fn itemsize nbytes names is_leaf name _version"""
)
_OF_THE_EXAMPLE_CALLED: Final = _words(
    """dim ndimension is_floating_point is_complex is_contiguous is_pinned is_shared is_signed is_conj is_inference
    element_size get_device data_ptr storage_offset type has_names is_grad_enabled is_autocast_enabled
    get_autocast_dtype get_autocast_gpu_dtype get_autocast_cpu_dtype get_default_dtype is_inference_mode_enabled
    get_default_device finfo iinfo device get_num_threads get_rng_state is_storage result_type promote_types can_cast
    untyped_storage storage is_available is_initialized device_count current_device get_device_capability"""
)
_NUMBERS: Final = frozenset(["item", "__bool__", "__int__", "__float__", "__index__", "__complex__"])
_ANSWERS: Final = frozenset(["equal", "allclose", "is_nonzero", "is_same_size"])
_SIZED_BY_NUMBERS: Final = _words(
    "nonzero argwhere nonzero_static unique unique_consecutive masked_select bincount combinations"
)
_TRUTHS: Final = _words(
    """eq ne lt le gt ge equal logical_and logical_or logical_not logical_xor isnan isinf isfinite isclose isin any all
    bool bitwise_not signbit greater less greater_equal less_equal not_equal isposinf isneginf"""
)
_MADE: Final = _words("zeros ones full empty rand randn randint eye arange linspace logspace randperm range")
_RESHAPED: Final = _words("view reshape expand new_zeros new_ones new_full new_empty repeat")
_PARTS: Final = _words(
    "split chunk unbind tensor_split hsplit vsplit dsplit unsafe_split unsafe_chunk split_with_sizes"
)
_KEEPS_LAST: Final = _words(
    """to float half bfloat16 double int long type_as contiguous clone detach relu gelu silu sigmoid tanh softmax
    log_softmax dropout exp log sqrt rsqrt pow add sub mul div neg abs masked_fill clamp cpu cuda layer_norm rms_norm
    requires_grad zeros_like ones_like full_like empty_like rand_like randn_like erf sin cos square round floor
    ceil where nan_to_num type softplus mish hardswish hardtanh leaky_relu elu data feature_dropout alpha_dropout cumsum
    flip roll copy zero fill bool normalize"""
)
_LAST_BY_WEIGHT: Final = _words("Linear LazyLinear Bilinear Embedding EmbeddingBag LayerNorm RMSNorm")
_PAIRS: Final = _words("LSTM GRU RNN MultiheadAttention AdaptiveLogSoftmaxWithLoss")
_DURING: Final = {
    "is_tracing": frozenset(["trace", "onnx"]),
    "is_scripting": frozenset(["script"]),
    "is_compiling": frozenset(["export", "onnx"]),
    "is_dynamo_compiling": frozenset(["export", "onnx"]),
    "is_exporting": frozenset(["export", "onnx"]),
    "is_in_onnx_export": frozenset(["onnx"]),
    "_is_tracing": frozenset(["trace", "onnx"]),
    "_get_tracing_state": frozenset(["trace", "onnx"]),
}


def during(name: str) -> frozenset[str] | None:
    """Return in which modes torch's function of that name answers yes, or None if it asks no such thing."""
    return _DURING.get(name)


def attribute_of_tensor(tensor: Tensor, name: str) -> Value | None:
    """Return what an attribute of a tensor holds, or None if it is a method."""
    if name == "shape":
        return Size(tensor.sizes, tensor.last)
    if name == "ndim" and tensor.rank is not None:
        return Known(tensor.rank, Kind.CONFIG)
    if name in _OF_THE_EXAMPLE:
        return CONFIG
    if name in ("T", "mT", "H", "mH"):
        return Tensor(tensor.sizes, tensor.sizes, tensor.truth, tensor.rank)
    if name in ("data", "real", "imag", "grad", "values", "indices"):
        return None if name in ("values", "indices") else tensor
    return None


def call_on_tensors(frame: Frame, node: ast.AST, name: str, args: Args, named: Keywords) -> Value:
    """Return what a method of a tensor or a function of torch gives.

    Args:
        frame: where it is called.
        node: the call.
        name: its name.
        args: what it gets by position; of a method the tensor is first.
        named: what it gets by name.
    """
    given = [*args, *named.values()]
    sizes = max(map(_sizes, given), default=Kind.CONFIG)
    first = _first_tensor(given)
    if name in ("size", "shape"):
        return _size(first, args[1:] or list(named.values()))
    if name in ("numel", "nelement", "__len__"):
        return Scalar(first.sizes)
    if name == "dim" and first.rank is not None:
        return Known(first.rank, Kind.CONFIG)
    if name in ("stride",):
        return Size(first.sizes, Kind.CONFIG)
    if name == "broadcast_shapes":
        kind = max(map(content_kind, given), default=Kind.CONFIG)
        return Size(kind, kind)
    if name in _OF_THE_EXAMPLE_CALLED:
        return CONFIG
    if name in _NUMBERS or name in _ANSWERS:
        frame.found(node, f".{name}()" if name in _NUMBERS else f"torch.{name}()", Kind.DATA)
        return Scalar(Kind.DATA)
    if name in ("tolist", "numpy", "__array__"):
        frame.found(node, f".{name}()", Kind.DATA)
        return Seq(None, Scalar(Kind.DATA), sizes) if name == "tolist" else Unknown(Kind.DATA)
    if name in ("tensor", "as_tensor", "scalar_tensor") and not has_tensor(args[0] if args else CONFIG):
        kind = content_kind(args[0]) if args else Kind.CONFIG
        if kind >= Kind.SHAPE:
            frame.found(node, f"torch.{name}()", kind)
        return Tensor(Kind.CONFIG, Kind.CONFIG)
    if name in ("tensor", "as_tensor") and args and isinstance(args[0], Seq):
        frame.found(node, f"torch.{name}()", Kind.DATA)
        return Tensor(content_kind(args[0]), Kind.CONFIG)
    if _sized_by_numbers(name, args, named):
        frame.found(node, f"{name}()", Kind.DATA)
        return Tensor(Kind.DATA, Kind.CONFIG if name in ("nonzero", "argwhere") else Kind.DATA)
    if name in _PARTS:
        return _parts(name, first, args, named)
    return _tensor(name, first, sizes, args, named)


def _tensor(name: str, first: Tensor, sizes: Kind, args: Args, named: Keywords) -> Value:
    truth = name in _TRUTHS
    if name in _MADE or name in _RESHAPED:
        words: list[Value] = [one for one in (args if name in _MADE else args[1:]) if not isinstance(one, Tensor)]
        words = words or [one for key, one in named.items() if key in ("size", "shape")]
        if name in ("full", "new_full", "randint"):
            words = words[:1] if name != "randint" else words[-1:]
        if len(words) == 1 and isinstance(words[0], Seq | Size):
            rank = len(words[0].items) if isinstance(words[0], Seq) and words[0].items is not None else None
            words = list(_items(words[0]))
        else:
            rank = len(words) if 0 < len(words) < 7 else None
        if name in ("arange", "linspace", "logspace", "randperm", "range"):
            kind = max(map(content_kind, words), default=Kind.CONFIG)
            return Tensor(kind, kind, rank=1)
        last = _size_kind(words[-1], first) if words else sizes
        if name in _MADE or name.startswith("new_"):
            sizes = max([last, *(_size_kind(one, first) for one in words)])
        return Tensor(sizes, last, rank=rank)
    if name in ("linear", "embedding", "layer_norm", "rms_norm"):
        return Tensor(sizes, Kind.CONFIG, rank=first.rank)
    if name in ("matmul", "bmm", "mm") and len(args) == 2:
        second = _first_tensor(args[1:])
        return Tensor(sizes, second.last, rank=max(first.rank, second.rank) if first.rank and second.rank else None)
    if name == "transpose" and len(args) == 3:
        dims = [one.obj for one in args[1:] if isinstance(one, Known) and isinstance(one.obj, int)]
        # Of unknown rank: a layer has fixed the last size of (batch, ..., features), and heads were split off.
        rank = first.rank or (4 if first.last <= Kind.CONFIG else 0)
        untouched = all(0 <= dim < rank - 1 or dim < -1 for dim in dims)
        return Tensor(sizes, first.last if untouched and len(dims) == 2 else sizes, first.truth, first.rank)
    if name == "unsqueeze":
        at_end = _dim(args, named, 1) in (-1, first.rank)
        last = Kind.CONFIG if at_end else first.last
        return Tensor(sizes, last, first.truth, None if first.rank is None else first.rank + 1)
    if name in ("cat", "concat", "stack", "concatenate") and args and isinstance(args[0], Seq):
        parts = _first_tensor([args[0].each])
        if args[0].length >= Kind.SHAPE:
            sizes = max(sizes, args[0].length)
        along_last = _dim(args, named, 1) in (-1, None if parts.rank is None else parts.rank - 1)
        return Tensor(sizes, max(parts.last, args[0].length) if along_last else parts.last, parts.truth, parts.rank)
    if name.rstrip("_") in _KEEPS_LAST or name in _KEEPS_LAST:
        return Tensor(sizes, first.last, truth or (first.truth and name not in _CASTS), first.rank)
    if name == "scaled_dot_product_attention":
        return Tensor(sizes, _first_tensor(args[2:3] or given_value(named)).last, rank=first.rank)
    if name in ("any", "all"):
        return Tensor(sizes, sizes, True)
    return Tensor(sizes, sizes, truth)


_CASTS: Final = _words("to float half bfloat16 double int long type_as type where")


def given_value(named: Keywords) -> list[Value]:
    """Return what is given as ``value``."""
    return [named["value"]] if "value" in named else []


def call_layer(frame: Frame, node: ast.AST, layer: Value, cls: type, args: Args) -> Value:
    """Return what one of torch's own layers gives."""
    name = cls.__name__
    first = _first_tensor(args)
    if issubclass(cls, torch.nn.Sequential):
        value = args[0] if args else Unknown(Kind.CONFIG)
        for child in children(layer):
            value = frame.walk.call(frame, node, child, [value], {})
        return value
    if name in _PAIRS:
        return sequence(
            [Tensor(first.sizes, Kind.CONFIG, rank=first.rank), sequence([Tensor(first.sizes, Kind.CONFIG)] * 2)]
        )
    if name in _LAST_BY_WEIGHT:
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


def children(layer: Value) -> list[Value]:
    """Return the modules in a Sequential, a ModuleList or the values of a ModuleDict."""
    if isinstance(layer, Known):
        return [Known(child, Kind.CONFIG) for child in layer.obj._modules.values()]
    if isinstance(layer, Instance):
        held = layer.attributes.get("*")
        if isinstance(held, Seq):
            return list(held.items) if held.items is not None else [held.each]
    return []


def indexed(frame: Frame, node: ast.AST, tensor: Tensor, index: Value) -> Value:
    """Return what ``tensor[index]`` gives."""
    parts = index.items if isinstance(index, Seq) and index.items is not None else (index,)
    if any(isinstance(one, Tensor) and one.truth for part in parts for one in alternatives(part)):
        frame.found(node, "[mask]", Kind.DATA)
        return Tensor(Kind.DATA, tensor.last if len(parts) == 1 else Kind.DATA)
    sizes = max([tensor.sizes, *map(_sizes, parts)])
    last = tensor.last
    if isinstance(index, Seq):
        ends = parts[-1]
        if isinstance(ends, Known) and ends.obj is None:
            last = Kind.CONFIG
        elif not (isinstance(ends, Known) and (ends.obj is Ellipsis or ends.obj == slice(None))):
            last = sizes if not isinstance(ends, Unknown) else max(tensor.last, ends.kind)
    return Tensor(sizes, last, tensor.truth)


def _sized_by_numbers(name: str, args: Args, named: Keywords) -> bool:
    if name == "where":
        return len(args) + len(named) == 1
    if name == "repeat_interleave":
        repeats = args[1] if len(args) > 1 else named.get("repeats", args[0] if args else CONFIG)
        return isinstance(repeats, Tensor) and "output_size" not in named
    return name in _SIZED_BY_NUMBERS


def _parts(name: str, first: Tensor, args: Args, named: Keywords) -> Value:
    dim = _dim(args, named, 1 if name == "unbind" else 2)
    along_last = dim in (-1, None if first.rank is None else first.rank - 1)
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
    return Seq(None, part, first.last if along_last else first.sizes)


def _dim(args: Args, named: Keywords, place: int) -> object:
    value = named.get("dim", args[place] if len(args) > place else None)
    return value.obj if isinstance(value, Known) else 0 if value is None else object()


def _size(tensor: Tensor, args: Args) -> Value:
    if not args:
        return Size(tensor.sizes, tensor.last)
    dim = args[0].obj if isinstance(args[0], Known) else None
    return Scalar(size_at(tensor, dim))


def size_at(tensor: Tensor | Size, dim: Any) -> Kind:
    """Return what one size hangs on."""
    rank = tensor.rank if isinstance(tensor, Tensor) else None
    if dim == -1 or (rank is not None and dim == rank - 1):
        return tensor.last
    return tensor.sizes


def _items(words: Seq | Size) -> Sequence[Value]:
    if isinstance(words, Size):
        return [Scalar(words.sizes), Scalar(words.last)]
    return words.items if words.items is not None else [words.each]


def _size_kind(value: Value, first: Tensor) -> Kind:
    """Return what a size that is asked for hangs on; -1 is what is left over."""
    if isinstance(value, Known) and value.obj == -1:
        return first.sizes
    return max(content_kind(value), Kind.CONFIG)


def _sizes(value: Value) -> Kind:
    """Return what the sizes of a result hang on, as far as this argument goes."""
    match value:
        case Tensor():
            return value.sizes
        case Seq():
            return max(Kind.CONFIG, *map(_sizes, value.items)) if value.items else _sizes(value.each)
        case Scalar() | Size() | Unknown():
            return content_kind(value)
    return max([Kind.CONFIG, *map(_sizes, alternatives(value))]) if len(alternatives(value)) > 1 else Kind.CONFIG


def _first_tensor(values: Sequence[Value]) -> Tensor:
    for value in values:
        if isinstance(value, Seq):
            value = value.each
        found = each_of(value, lambda one: one) if not isinstance(value, Tensor) else value
        for one in alternatives(found):
            if isinstance(one, Tensor):
                return one
    return Tensor()


def tensor_like(*values: Value) -> Tensor:
    """Return the tensor that arithmetic of these gives."""
    tensors = [one for value in values for one in alternatives(value) if isinstance(one, Tensor)]
    whole: Value = join(tensors or [Tensor()])
    sizes = max([one.sizes for one in tensors], default=Kind.SHAPE)
    last = max([one.last for one in tensors], default=Kind.SHAPE)
    ranks = {one.rank for one in tensors}
    rank = None if None in ranks or not ranks else max(rank for rank in ranks if rank is not None)
    return Tensor(sizes, last, isinstance(whole, Tensor) and whole.truth, rank)
