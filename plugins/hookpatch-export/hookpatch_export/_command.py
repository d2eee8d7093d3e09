"""Tell which line of a model will not survive its export: hookpatch scan, before anything is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hookpatch

if TYPE_CHECKING:
    import typer


@hookpatch.hookimpl
def hookpatch_commands(app: typer.Typer) -> None:
    """Add ``hookpatch scan``."""
    from hookpatch_export._show.scan_command import scan_command  # needs typer, rich and torch

    app.command("scan")(scan_command)
