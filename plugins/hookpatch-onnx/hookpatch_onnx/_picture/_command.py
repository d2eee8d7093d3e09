"""``hookpatch onnx diff``: two models, or two folders of recorded ones, in words and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hookpatch_onnx._picture._compare import compare
from hookpatch_onnx._picture._errors import PictureError
from hookpatch_onnx._picture._page import page_of
from hookpatch_onnx._picture._read import read
from hookpatch_onnx._picture._text import summary


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A model, or a folder of recorded ones.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another one.")],
    page: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIFF.HTML", help="Draw both graphs side by side, too.")
    ] = None,
) -> None:
    """Say what changed from one ONNX model to another, and draw it; weights are not read.

    Example: hookpatch onnx diff before.onnx after.onnx -o diff.html
    """
    comparison = compare(read(before), read(after), (before.name, after.name))
    drawn = None if page is None else page_of(comparison)
    Console(highlight=False, soft_wrap=True).print(summary(comparison))
    if page is not None and drawn is not None:
        write(page, drawn)


def write(path: Path, text: str) -> None:
    """Write a page, and say where.

    Raises:
        PictureError: it cannot be written there.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PictureError(path, f"cannot be written: {error.strerror}") from None
    typer.echo(f"drawn in {path}")
