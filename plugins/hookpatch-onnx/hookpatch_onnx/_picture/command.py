"""The command ``hookpatch onnx diff``: compare two models, or two folders of recorded models."""

from __future__ import annotations

import io
import json as _json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from hookpatch_onnx._compare.compare import Comparison, compare
from hookpatch_onnx._measure.inputs import arrays_in
from hookpatch_onnx._measure.measured import Measured, measure
from hookpatch_onnx._model.read import read
from hookpatch_onnx._picture.html_page import page_of
from hookpatch_onnx._picture.json import as_json
from hookpatch_onnx._picture.summary import summary
from hookpatch_onnx._record.pairs import Pair, pairs_of
from hookpatch_onnx.errors import ModelRunError, NothingInCommonError, PictureError

_Measuring: TypeAlias = Callable[[Comparison, Path, Path], Measured | None]


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A model, or a folder of recorded models.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another model, or another folder.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIFF.HTML", help="Draw both models side by side; for folders, name a folder."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Run both models on one input, and measure each change.")] = False,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="FILE.NPZ", help="Inputs by name for --run; others are made.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The seed of generated inputs.")] = 0,
    weights: Annotated[bool, typer.Option("--weights", help="Compare the weights, too; --run includes this.")] = False,
) -> None:
    """Compare two ONNX models, and draw the changes.

    Example: hookpatch onnx diff before.onnx after.onnx --run -o diff.html
    """
    is_run = run or inputs is not None
    arrays = {} if inputs is None else arrays_in(inputs)

    def measured(comparison: Comparison, our_path: Path, their_path: Path) -> Measured | None:
        return (
            measure(comparison, (our_path, their_path), arrays, seed if is_run else None) if is_run or weights else None
        )

    if before.is_dir() and after.is_dir():
        comparisons = [_show_pair(pair, output, not json, measured) for pair in pairs_of(before, after)]
    else:
        comparison = compare(read(before), read(after), (before.name, after.name))
        numbers = measured(comparison, before, after)
        comparisons = [as_json(comparison, numbers)]
        _show(comparison, numbers, output, not json)
    if json:
        typer.echo(_json.dumps({"comparisons": comparisons}, indent=2))


def _show_pair(pair: Pair, folder: Path | None, in_words: bool, measured: _Measuring) -> dict[str, Any]:
    """Print the comparison of a pair, write the words and the page into a folder; return the JSON."""
    say = typer.echo if in_words else _nothing
    say(typer.style(f"\n{pair.name}", bold=True))
    if pair.before is None or pair.after is None:
        run = "second" if pair.before is None else "first"
        problem = f"only the {run} run has exported the model: the other run has none to compare"
        say(problem)
        return {"pair": pair.name, "problem": problem}
    names = f"{pair.before.parent.name}/{pair.before.name}", f"{pair.after.parent.name}/{pair.after.name}"
    try:
        comparison = compare(read(pair.before), read(pair.after), names)
        numbers = measured(comparison, pair.before, pair.after)
    except (NothingInCommonError, ModelRunError) as error:
        say(str(error))  # the other pairs are compared all the same
        return {"pair": pair.name, "problem": str(error)}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"{pair.name}.txt", _words(comparison, numbers))
    _show(comparison, numbers, folder and folder / f"{pair.name}.html", in_words)
    return {"pair": pair.name, **as_json(comparison, numbers)}


def _show(comparison: Comparison, numbers: Measured | None, path: Path | None, in_words: bool) -> None:
    """Print a comparison, and draw the page into a file."""
    page = None if path is None else page_of(comparison, numbers)
    if in_words:
        _print(summary(comparison, numbers))
    if path is not None and page is not None:
        _write(path, page)
        if in_words:
            typer.echo(f"drawn in {path}")


def _nothing(text: str) -> None:
    pass


def _print(renderable: RenderableType) -> None:
    console = Console(highlight=False)
    console.print(renderable, soft_wrap=not console.is_terminal)  # into a pipe no line is wrapped


def _words(comparison: Comparison, numbers: Measured | None) -> str:
    written = io.StringIO()
    Console(file=written, highlight=False, soft_wrap=True).print(summary(comparison, numbers), Text())
    return written.getvalue()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PictureError(path, f"cannot be written: {error.strerror}") from None
