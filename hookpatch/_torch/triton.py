"""Find the patches that Triton bypasses: a kernel is compiled from its text, and launched without a call.

Neither torch nor triton is imported here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from hookpatch._bootstrap import imports
from hookpatch._engine.site.layers.layer import Layer
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.attribute import AttributeSlot
from hookpatch._engine.slots.function import FunctionSlot
from hookpatch._engine.slots.slot import inner

_OF_TEXT: Final = ("fn", "raw_src", "src")  # the attributes of a kernel that Triton has read at the decorator
_READ: Final = "Triton has read the kernel's text at the decorator; replace the whole kernel"


def past_triton(site: Site, layer: Layer) -> str | None:
    """Return in words how Triton bypasses a patch; None if a kernel runs the patch, and for anything else."""
    jit: Any = imports.loaded("triton.runtime.jit")
    if jit is None:
        return None
    slot = site.slot
    if isinstance(slot, FunctionSlot):
        named = slot.owner.__globals__
        kernels = _kernels(named, jit) if "triton" in named else {}  # else a search at each block
        return _READ if any(kernel.fn is slot.owner for kernel in kernels.values()) else None
    if not isinstance(slot, AttributeSlot):
        return None
    if isinstance(slot.owner, jit.KernelInterface):
        return _READ if slot.name in _OF_TEXT else None
    if not isinstance(inner(site.original), jit.KernelInterface):
        return None
    if layer.wraps:
        return f"Triton launches a kernel by kernel[grid](...), past a wrapper; patch {layer.patch.address}.run"
    named = vars(slot.owner) if isinstance(slot.owner, ModuleType) else {}
    for name, kernel in _kernels(named, jit).items():
        if slot.name in kernel.fn.__code__.co_names:
            problem = f"a kernel keeps the {slot.name} with which it was compiled, before this block or inside"
            return f"{problem}; call {name}.device_caches.clear() at the begin and at the end"
    return None


def is_of_triton(site: Site) -> bool:
    """Return True for a site of a kernel: later kernels may bypass the patch."""
    jit: Any = imports.loaded("triton.runtime.jit")
    values = (site.slot.owner, inner(site.original))
    return jit is not None and any(isinstance(value, jit.KernelInterface) for value in values)


def names_of_triton(site: Site) -> list[tuple[dict[str, Any], str]]:
    """Return the globals, and the name in these, with which a function may be part of a kernel."""
    slot = site.slot
    return [(slot.owner.__globals__, "triton")] if isinstance(slot, FunctionSlot) else []


def _kernels(named: dict[str, Any], jit: Any) -> dict[str, Any]:
    """Return the kernels among named values."""
    return {name: value for name, value in named.copy().items() if isinstance(value, jit.JITFunction)}
