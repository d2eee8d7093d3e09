"""hookpatch plugins for TorchScript: one module a plugin; ``explain`` and ``guard`` for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookpatch_torchscript._report.explanation import Explanation
    from hookpatch_torchscript._scripting.explain import explain
    from hookpatch_torchscript._tracing.guard import guard
    from hookpatch_torchscript._values.verdict import Verdict

__all__ = ["Explanation", "Verdict", "explain", "guard"]


if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of ours

    def __getattr__(name: str) -> object:
        # Lazily: the plugins are loaded in processes that may never import torch.
        if name not in __all__:
            raise AttributeError(f"module 'hookpatch_torchscript' has no attribute '{name}'")
        from hookpatch_torchscript._scripting import explain
        from hookpatch_torchscript._tracing import guard

        return getattr(guard if name in ("Verdict", "guard") else explain, name)
