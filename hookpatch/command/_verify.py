"""``hookpatch verify``: whether the files of a plugin's distribution are those that were installed."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Annotated

import typer

from hookpatch._discovery import find
from hookpatch._selection import normalise
from hookpatch.command._complete import plugin_names


def verify(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Plugins, or hookpatch itself.", autocompletion=plugin_names)
    ],
) -> None:
    """Tell whether files of plugins were changed since installation.

    Their hashes are compared with those that were recorded then. That tells of later changes, not whether what was
    installed was good. Ends with status 1 if a file differs.

    Example: hookpatch verify fuse_qkv_off hookpatch
    """
    is_well = True
    for name in names:
        is_hookpatch = normalise(name) == "hookpatch"
        distribution = metadata.distribution(
            "hookpatch" if is_hookpatch else find(name, "hookpatch verify").distribution
        )
        said = f"{name}: {distribution.metadata['Name']} {distribution.version}"
        record = distribution.read_text("RECORD")
        if record is None:
            typer.echo(f"{said} has no RECORD of its files: it cannot be told")
            is_well = False
            continue
        if '"editable": true' in (distribution.read_text("direct_url.json") or ""):
            typer.echo(f"{said} is installed as editable: its code is in no RECORD, it cannot be told")
            is_well = False
            continue
        recorded = {path: digest for path, digest, _ in csv.reader(record.splitlines()) if digest}
        wrong = list(_differences(distribution, recorded))
        if wrong:
            is_well = False
            typer.echo("\n".join([f"{said} is not as it was installed", *(f"  {line}" for line in wrong)]))
        else:
            typer.echo(f"{said} is as it was installed ({len(recorded)} files)")
    if not is_well:
        raise typer.Exit(1)


def _differences(distribution: metadata.Distribution, recorded: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each recorded file that is missing or has another hash than the one that is recorded."""
    for name, digest in recorded.items():
        algorithm, _, expected = digest.partition("=")
        try:
            with open(str(distribution.locate_file(name)), "rb") as content:
                found = hashlib.file_digest(content, algorithm).digest()
        except OSError:
            yield f"missing  {name}"
            continue
        if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != expected:
            yield f"changed  {name}"
