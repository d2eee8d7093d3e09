"""``hookpatch check``: whether the targets of plugins still fit, here or in other releases."""

from __future__ import annotations

import json as _json
from typing import Annotated

import typer
from rich.console import Console

from hookpatch import _check
from hookpatch._lock import NAME
from hookpatch.command._against import against_releases, print_releases, releases_of
from hookpatch.command._arguments import AsJson, Names, OptionWords
from hookpatch.command._option_words import words_of
from hookpatch.command._targets import imports_aside, lock_of, named, print_targets


def check(
    names: Names = None,
    option: OptionWords = None,
    path: Annotated[
        str | None, typer.Option("--lock", metavar="FILE", help=f"Compare with this; {NAME} if it is there.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="NAME==A,B,C", help="Check releases of a distribution, each installed anew."),
    ] = None,
    pip_arg: Annotated[
        list[str] | None,
        typer.Option("--pip-arg", metavar="WORD", help="With --against: a word for pip install."),
    ] = None,
    no_deps: Annotated[
        bool, typer.Option("--no-deps", help="With --against: all but the release itself is taken from here.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Look whether the targets of plugins have changed, and still fit.

    Imports them, applies nothing. Compares them with a lock file, where there is one.

    Ends with status 0 if all are as locked, or fit where there is no lock file; 1 if one has changed and takes what it
    took, is not in the lock file, or a patch that is not required does not fit; 2 if one is gone or does not fit.

    Example: hookpatch check fuse_qkv_off --against onnxsim==0.4.36,0.8.1
    """
    lock = lock_of(path)
    given = named("check", names or (), option or (), lock)
    if against is not None:
        elsewhere = {name: of for name, of in given.options.items() if lock is None or lock.options.get(name) != of}
        words = words_of(elsewhere, "--against")  # what -o gives is among them
        rows = against_releases(releases_of(against), given, words, lock, pip_arg or (), no_deps)
        status = max((row.severity for row in rows), default=0)
        if json:
            content = {"against": rows[0].distribution, "status": status, "releases": [row.to_dict() for row in rows]}
            typer.echo(_json.dumps(content, indent=2))
        else:
            print_releases(Console(), rows)
        raise typer.Exit(status)
    with imports_aside():
        targets = _check.check(given.asked, lock)
    status = max((one.severity for one in targets), default=0)
    if json:
        content = {"lock": lock and lock.path, "status": status, "targets": [one.to_dict() for one in targets]}
        typer.echo(_json.dumps(content, indent=2))
    else:
        print_targets(Console(), targets)
    raise typer.Exit(status)
