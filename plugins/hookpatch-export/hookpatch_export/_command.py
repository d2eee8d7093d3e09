"""Find the lines of a model that will not survive an export: hookpatch scan, before the export."""

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
