"""Patches of Triton's kernels: those that Triton goes past are said. Triton comes with torch for GPUs alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

import hookpatch
from hookpatch.errors import BypassWarning

pytest.importorskip("triton")
pytest.importorskip("torch")

VENDOR: Final = """
import triton
import triton.language as tl

@triton.jit
def scaled(x):
    return x * 2.0

@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, scaled(tl.load(x + at)))

@triton.jit
def other(x):
    return x * 3.0
"""


def same(wrapped: Any, instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


PATCHES: Final[dict[str, tuple[Callable[[str, Any], Any], str | None]]] = {
    "wrap": (lambda name, vendor: hookpatch.wrap(f"{name}:kernel", same), "patch .*:kernel.run$"),
    "wrap, run": (lambda name, vendor: hookpatch.wrap(f"{name}:kernel.run", same), None),
    "replace": (lambda name, vendor: hookpatch.replace(f"{name}:kernel", vendor.other), None),
    "replace, inlined": (
        lambda name, vendor: hookpatch.replace(f"{name}:scaled", vendor.other),
        "keeps the scaled .* kernel.device_caches.clear",
    ),
    "edit, text": (
        lambda name, vendor: hookpatch.edit(f"{name}:scaled.fn", "return x * 2.0", "return x * 4.0"),
        "replace the whole kernel",
    ),
}


@pytest.mark.parametrize("case", PATCHES)
def test_what_triton_goes_past_is_said(make_module: Callable[..., Any], case: str) -> None:
    """A wrapper is never called, a text was read before, and compiled kernels keep what they have inlined."""
    vendor = make_module("kernels", VENDOR)
    make, said = PATCHES[case]
    kept = dict(vars(vendor))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hookpatch.active(make("kernels", vendor), children="local"):
            pass
    texts = [str(warning.message) for warning in heard if warning.category is BypassWarning]
    if said is None:
        assert texts == []
    else:
        with pytest.raises(BypassWarning, match=said):
            raise BypassWarning(*texts)
    assert all(vars(vendor)[name] is value for name, value in kept.items())
