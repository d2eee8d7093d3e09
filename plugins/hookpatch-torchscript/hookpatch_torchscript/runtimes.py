"""What each way to run a model buys: hookpatch runtimes measures eager, TorchScript, compile, export, ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hookpatch

if TYPE_CHECKING:
    import typer


@hookpatch.hookimpl
def hookpatch_commands(app: typer.Typer) -> None:
    """Add ``hookpatch runtimes``."""
    from hookpatch_torchscript._runtimes.command.command import runtimes_command  # needs typer and rich

    app.command("runtimes")(runtimes_command)
