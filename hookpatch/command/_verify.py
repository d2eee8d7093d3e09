"""``hookpatch verify``: whether the files of a plugin's distribution are those that were installed."""

from __future__ import annotations

import base64
import csv
import hashlib
import json as _json
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Annotated, NamedTuple

import typer

from hookpatch._discovery import find
from hookpatch._selection import normalise
from hookpatch.command._arguments import AsJson, plugin_names


def verify(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Plugins, or hookpatch itself.", autocompletion=plugin_names)
    ],
    json: AsJson = False,
) -> None:
    """Tell whether files of plugins were changed since installation.

    Their hashes are compared with those that were recorded then. That tells of later changes, not whether what was
    installed was good. Ends with status 1 if a file differs.

    Example: hookpatch verify fuse_qkv_off hookpatch
    """
    found = [_verified(name) for name in names]
    if json:
        typer.echo(_json.dumps({"distributions": [one._asdict() for one in found]}, indent=2))
    else:
        for one in found:
            typer.echo("\n".join([f"{one.name}: {one.distribution} {one.version} {one.said}", *one.lines]))
    if any(one.status != "same" for one in found):
        raise typer.Exit(1)


class _Verified(NamedTuple):
    """What was found out about a distribution; ``status`` is *same*, *changed* or *unknown*."""

    name: str
    distribution: str
    version: str
    status: str
    files: int
    differences: list[str]
    reason: str | None = None

    @property
    def said(self) -> str:
        if self.status == "same":
            return f"is as it was installed ({self.files} files)"
        return "is not as it was installed" if self.reason is None else f"{self.reason}: it cannot be told"

    @property
    def lines(self) -> list[str]:
        return [f"  {line}" for line in self.differences]


def _verified(name: str) -> _Verified:
    is_hookpatch = normalise(name) == "hookpatch"
    distribution = metadata.distribution("hookpatch" if is_hookpatch else find(name, "hookpatch verify").distribution)
    head = name, distribution.metadata["Name"], distribution.version
    record = distribution.read_text("RECORD")
    if record is None:
        return _Verified(*head, "unknown", 0, [], "has no RECORD of its files")
    if '"editable": true' in (distribution.read_text("direct_url.json") or ""):
        return _Verified(*head, "unknown", 0, [], "is installed as editable: its code is in no RECORD")
    recorded = {path: digest for path, digest, _ in csv.reader(record.splitlines()) if digest}
    wrong = list(_differences(distribution, recorded))
    return _Verified(*head, "changed" if wrong else "same", len(recorded), wrong)


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
