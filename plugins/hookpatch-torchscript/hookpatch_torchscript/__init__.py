"""hookpatch plugins for TorchScript: a module for each plugin; ``explain`` and ``guard`` for a single call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookpatch_torchscript._report.explanation import Explanation
    from hookpatch_torchscript._scripting.explain import explain
    from hookpatch_torchscript._tracing.guard import guard
    from hookpatch_torchscript._values.verdict import Verdict

__all__ = ["Explanation", "Verdict", "explain", "guard"]


if not TYPE_CHECKING:  # else a type checker accepts any name as an attribute of the package

    def __getattr__(name: str) -> object:
        # Import lazily: plugins are also loaded in processes that may not import torch.
        if name not in __all__:
            raise AttributeError(f"module 'hookpatch_torchscript' has no attribute '{name}'")
        from hookpatch_torchscript._scripting import explain
        from hookpatch_torchscript._tracing import guard

        return getattr(guard if name in ("Verdict", "guard") else explain, name)
