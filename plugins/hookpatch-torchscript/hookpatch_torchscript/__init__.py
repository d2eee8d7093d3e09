"""hookpatch plugins for TorchScript: one module a plugin; ``explain`` and ``guard`` for one call."""

from __future__ import annotations

from typing import Any, Final

__all__: Final = ["Explanation", "Verdict", "explain", "guard"]


def __getattr__(name: str) -> Any:
    # Lazily: the plugins are loaded in processes that may never import torch.
    if name not in __all__:
        raise AttributeError(f"module 'hookpatch_torchscript' has no attribute '{name}'")
    from hookpatch_torchscript import _explain, _guard

    return getattr(_guard if name in ("Verdict", "guard") else _explain, name)
