"""hookpatch plugins for TorchScript: one module a plugin; ``explain`` and ``guard`` for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookpatch_torchscript._explain import explain
    from hookpatch_torchscript._guard import guard
    from hookpatch_torchscript._record import Explanation
    from hookpatch_torchscript._verdict import Verdict

__all__ = ["Explanation", "Verdict", "explain", "guard"]


if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of ours

    def __getattr__(name: str) -> object:
        # Lazily: the plugins are loaded in processes that may never import torch.
        if name not in __all__:
            raise AttributeError(f"module 'hookpatch_torchscript' has no attribute '{name}'")
        from hookpatch_torchscript import _explain, _guard

        return getattr(_guard if name in ("Verdict", "guard") else _explain, name)
