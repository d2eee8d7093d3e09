"""``hookpatch verify``: whether the files of a plugin's distribution are those that were installed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated

import typer

from hookpatch._discovery import find
from hookpatch._selection import normalise


def verify(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Plugins, or hookpatch itself.")],
) -> None:
    """Compare the files of plugins' distributions with the hashes that were recorded when they were installed.

    That tells of later changes, not whether what was installed was good. Ends with status 1 if a file differs.

    Example: hookpatch verify fuse_qkv_off hookpatch
    """
    is_well = True
    for name in names:
        is_hookpatch = normalise(name) == "hookpatch"
        distribution = metadata.distribution(
            "hookpatch" if is_hookpatch else find(name, "hookpatch verify").distribution
        )
        said = f"{name}: {distribution.metadata['Name']} {distribution.version}"
        if distribution.files is None:
            typer.echo(f"{said} has no RECORD of its files: it cannot be told")
            is_well = False
            continue
        if any(file.name == "direct_url.json" and _is_editable(distribution) for file in distribution.files):
            typer.echo(f"{said} is installed as editable: its code is in no RECORD, it cannot be told")
            is_well = False
            continue
        wrong = list(_differences(distribution))
        if wrong:
            is_well = False
            typer.echo("\n".join([f"{said} is not as it was installed", *(f"  {line}" for line in wrong)]))
        else:
            count = sum(file.hash is not None for file in distribution.files)
            typer.echo(f"{said} is as it was installed ({count} files)")
    if not is_well:
        raise typer.Exit(1)


def _is_editable(distribution: metadata.Distribution) -> bool:
    return '"editable": true' in (distribution.read_text("direct_url.json") or "")


def _differences(distribution: metadata.Distribution) -> Iterator[str]:
    """Yield a line for each recorded file that is missing or has another hash."""
    for file in distribution.files or ():
        if file.hash is None:
            continue  # RECORD itself, and compiled files
        path = file.locate()
        try:
            with open(str(path), "rb") as content:
                digest = hashlib.file_digest(content, file.hash.mode).digest()
        except OSError:
            yield f"missing  {file}"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"changed  {file}"
