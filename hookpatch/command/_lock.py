"""``hookpatch lock``: writes down what the targets of plugins are like."""

from __future__ import annotations

import json as _json
import os
from typing import Annotated

import typer
from rich.console import Console

from hookpatch import _selection
from hookpatch._check import lockable
from hookpatch._lock import NAME, Lock, key_of, write_lock
from hookpatch.command._arguments import AsJson, Names, OptionWords
from hookpatch.command._targets import imports_aside, lock_of, named, print_targets


def lock(
    names: Names = None,
    option: OptionWords = None,
    path: Annotated[str | None, typer.Option("--lock", metavar="FILE", help=f"The file; {NAME} if none.")] = None,
    json: AsJson = False,
) -> None:
    """Write down what the targets of plugins are like.

    In a file to be reviewed and committed, written anew each time: name all plugins that it is to have. For each
    target: distribution and version, signature, source; of a class the members, of a registry the keys. Imports the
    targets, applies nothing. Ends with status 2, and writes nothing, if one does not fit.

    Example: hookpatch lock fuse_qkv_off
    """
    named_elsewhere, _ = _selection.lock_path()
    known = lock_of(path) if not names and (path or not named_elsewhere or os.path.exists(named_elsewhere)) else None
    given = named("lock", names or (), option or (), known)
    with imports_aside():
        targets, problems = lockable(given.asked)
    if problems:
        if json:
            typer.echo(_json.dumps({"lock": None, "targets": [one.to_dict() for one in problems]}, indent=2))
        else:
            print_targets(Console(), problems)
        raise typer.Exit(2)
    written = Lock(given.names, given.options, targets, path or named_elsewhere or NAME)
    is_new = write_lock(written)
    if json:
        typer.echo(_json.dumps({"lock": written.path, "written": is_new, "targets": sorted(targets)}, indent=2))
        return
    for address in sorted(targets):
        typer.echo(f"{targets[address].fingerprint.release}  {address}")
    for address in sorted({one.patch.address for one in given.asked if key_of(one.patch) is None}):
        typer.echo(f"not locked: {address}, an object at hand without an address")
    typer.echo(f"{written.path} {'written' if is_new else 'holds that already'}")
