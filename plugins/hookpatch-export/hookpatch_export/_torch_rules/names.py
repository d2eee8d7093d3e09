"""Names of torch's functions, attributes and layers, grouped by their results: facts of torch 2.13."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OF_THE_EXAMPLE: Final = _words(
    """dtype device layout is_cuda is_cpu is_mps is_xpu is_sparse is_quantized is_meta is_nested requires_grad ndim
    grad_fn itemsize nbytes names is_leaf name _version"""
)
OF_THE_EXAMPLE_CALLED: Final = _words(
    """dim ndimension is_floating_point is_complex is_contiguous is_pinned is_shared is_signed is_conj is_inference
    element_size get_device data_ptr storage_offset type has_names is_grad_enabled is_autocast_enabled
    get_autocast_dtype get_autocast_gpu_dtype get_autocast_cpu_dtype get_default_dtype is_inference_mode_enabled
    get_default_device finfo iinfo device get_num_threads get_rng_state is_storage result_type promote_types can_cast
    untyped_storage storage is_available is_initialized device_count current_device get_device_capability"""
)
NUMBERS: Final = frozenset(["item", "__bool__", "__int__", "__float__", "__index__", "__complex__"])
ANSWERS: Final = frozenset(["equal", "allclose", "is_nonzero", "is_same_size"])
SIZED_BY_NUMBERS: Final = _words(
    "nonzero argwhere nonzero_static unique unique_consecutive masked_select bincount combinations"
)
PARTS: Final = _words("split chunk unbind tensor_split hsplit vsplit dsplit unsafe_split unsafe_chunk split_with_sizes")
TRUTHS: Final = _words(
    """eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isfinite isclose isin any all
    bool bitwise_not signbit greater less greater_equal less_equal not_equal isposinf isneginf"""
)
MADE: Final = _words("zeros ones full empty rand randn randint eye arange linspace logspace randperm range")
RESHAPED: Final = _words("view reshape expand new_zeros new_ones new_full new_empty repeat")
SIZED: Final = _words(
    """as_strided pad interpolate upsample tile broadcast_to roll narrow unflatten fold resize_
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"""
)
WIDTHS: Final = ("size", "shape", "pad", "output_size", "dims", "shifts", "start", "length", "sizes")  # keywords
RANGES: Final = frozenset(["arange", "linspace", "logspace", "randperm", "range"])
KEEPS_LAST: Final = _words(
    """to float half bfloat16 double int long type_as contiguous clone detach relu gelu silu sigmoid tanh softmax
    log_softmax dropout exp log sqrt rsqrt pow add sub mul div neg abs masked_fill clamp cpu cuda layer_norm rms_norm
    requires_grad zeros_like ones_like full_like empty_like rand_like randn_like erf sin cos square round floor
    ceil where nan_to_num softplus mish hardswish hardtanh leaky_relu elu data feature_dropout alpha_dropout cumsum
    flip roll copy zero fill bool normalize"""
)
CASTS: Final = _words("to float half bfloat16 double int long type_as where")
LAST_BY_WEIGHT: Final = _words("Linear LazyLinear Bilinear Embedding EmbeddingBag LayerNorm RMSNorm")
PAIRS: Final = _words("LSTM GRU RNN MultiheadAttention AdaptiveLogSoftmaxWithLoss")

RANDOM: Final = _words(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson"
)
