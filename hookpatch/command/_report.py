"""``hookpatch report``: what the processes of a run have left, in one table."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._receipts import ProcessReport, receipts
from hookpatch._report import PatchReport

_STYLES = {"applied": "green", "restored": "green", "failed": "red", "skipped": "red"}


def report(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of --report or HOOKPATCH_REPORT.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Join what the processes of the last run have left in a folder.

    What became of each patch in each of them.

    Ends with status 1 if a process is not as it should be: unpatched, or other than the first.

    Example: hookpatch run -p fuse_qkv_off --report reports export.py; hookpatch report reports
    """
    run = receipts(folder)
    if json:
        typer.echo(run.to_json())
    else:
        console = Console()
        table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
        table.add_column("process", no_wrap=True)
        table.add_column("runs", overflow="fold")
        table.add_column("patches", overflow="fold")
        for process in run:
            table.add_row(_who(process), shlex.join(process.argv), _what(process))
        console.print(table)
    if run.problems:
        raise typer.Exit(1)


def _who(process: ProcessReport) -> str:
    rank = "" if process.rank is None else f"\nrank {process.rank}"
    return f"{process.pid}{rank}" + ("" if process.ended else "\nno end")


def _what(process: ProcessReport) -> Text:
    lines = [_line(patch) for patch in process.patches]
    lines += [Text(problem, style="red") for problem in process.problems]
    return Text("\n").join(lines or [Text("none")])


def _line(patch: PatchReport) -> Text:
    line = Text.assemble((f"{patch.state:<9}", _STYLES.get(patch.state, "")), f" {patch.target}")
    if patch.calls is not None:
        line.append(f"  ({patch.calls_in_words})")
    return line
