"""``hookpatch onnx diff``: two models, or two folders of recorded ones, in words and as a page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from hookpatch_onnx._picture._compare import Comparison, compare
from hookpatch_onnx._picture._page import page_of
from hookpatch_onnx._picture._read import read
from hookpatch_onnx._picture._recorded import Pair, pairs_of
from hookpatch_onnx._picture._text import summary
from hookpatch_onnx.errors import NothingInCommonError, PictureError


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A model, or a folder of recorded ones.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIFF.HTML", help="Draw both, side by side; for folders a folder."),
    ] = None,
) -> None:
    """Say what changed from one ONNX model to another, and draw it; weights are not read.

    Example: hookpatch onnx diff before.onnx after.onnx -o diff.html
    """
    if before.is_dir() and after.is_dir():
        for pair in pairs_of(before, after):
            _show_pair(pair, output)
        return
    comparison = compare(read(before), read(after), (before.name, after.name))
    page = None if output is None else page_of(comparison)
    _print(summary(comparison))
    if output is not None and page is not None:
        _write(output, page)
        typer.echo(f"drawn in {output}")


def _show_pair(pair: Pair, folder: Path | None) -> None:
    """Print what changed, and write the same words and the page into a folder."""
    typer.secho(f"\n{pair.name}", bold=True)
    if pair.before is None or pair.after is None:
        run = "second" if pair.before is None else "first"
        typer.echo(f"only the {run} run has made it: there is nothing to compare it with")
        return
    names = f"{pair.before.parent.name}/{pair.before.name}", f"{pair.after.parent.name}/{pair.after.name}"
    try:
        comparison = compare(read(pair.before), read(pair.after), names)
    except NothingInCommonError as error:
        typer.echo(str(error))  # the other pairs are compared all the same
        return
    _print(summary(comparison))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"{pair.name}.txt", _words(comparison))
        page = folder / f"{pair.name}.html"
        _write(page, page_of(comparison))
        typer.echo(f"drawn in {page}")


def _print(what: RenderableType) -> None:
    console = Console(highlight=False)
    console.print(what, soft_wrap=not console.is_terminal)  # a pipe gets each line as one


def _words(comparison: Comparison) -> str:
    written = io.StringIO()
    Console(file=written, highlight=False, soft_wrap=True).print(summary(comparison), Text())
    return written.getvalue()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PictureError(path, f"cannot be written: {error.strerror}") from None
