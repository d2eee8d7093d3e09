"""Show what changed in an ONNX model: hookpatch onnx diff, and a recorder of the models that a program makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hookpatch

if TYPE_CHECKING:
    import typer


@hookpatch.hookimpl
def hookpatch_commands(app: typer.Typer) -> None:
    """Add ``hookpatch onnx diff``."""
    from hookpatch_onnx._picture._command import diff  # needs onnx and rich, which a recorder does not

    app.command("diff")(diff)
