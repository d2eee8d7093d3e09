"""``hookpatch new``: writes the distribution of a new plugin, which passes its tests as it is."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from hookpatch._new import DEFAULT, write_plugin


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name; its module has it, too.")],
    target: Annotated[str, typer.Option(metavar="ADDRESS", help="What it patches, such as json:dumps.")] = DEFAULT,
    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The folder to write, new or empty; hookpatch-NAME if none.")
    ] = None,
) -> None:
    """Write a plugin that passes its own tests, to begin with.

    A distribution: one module, a README, a test. It tells each call of its target; what is yours to change is marked
    CHANGE. Imports nothing of the target, and writes nothing if something is wrong.

    Example: hookpatch new keep_linear --target onnxsim.onnx_simplifier:simplify
    """
    written = write_plugin(name, target, into)
    typer.echo("\n".join([f"{written.folder}:", *(f"  {path}" for path in written.files)]))
    if written.missing:
        typer.echo(f"Note: {written.missing}. The tests that need it are skipped meanwhile.")
    default = "" if target != DEFAULT else "; `--target ADDRESS` names another"
    typer.echo(f"It tells each call of {target}{default}. What is yours to change is marked CHANGE. Next:")
    folder = str(written.folder)
    steps = [
        *([f"cd {shlex.quote(folder)}"] if folder != "." else []),
        "python -m pip install --editable '.[test]'",
        "python -m pytest",
        f"hookpatch plan {name}",
        f"HOOKPATCH_PLUGINS={name} python program.py",
    ]
    typer.echo("\n".join(f"  {step}" for step in steps))
