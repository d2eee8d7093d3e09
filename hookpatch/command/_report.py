"""``hookpatch report``: what the processes of a run have left, in one table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookpatch._receipts import ProcessReport, receipts
from hookpatch._report import PatchReport
from hookpatch.command._page import page_of
from hookpatch.errors import SettingError

_STYLES = {
    **dict.fromkeys(("applied", "restored"), "green"),
    **dict.fromkeys(("failed", "skipped"), "red"),
    **dict.fromkeys(("dormant", "displaced", "unlinked"), "yellow"),
}


def report(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of --report or HOOKPATCH_REPORT.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as a page that needs no network, too.")
    ] = None,
) -> None:
    """Join what the processes of the last run have left in a folder.

    What became of each patch in each of them.

    Ends with status 1 if a process is not as it should be: unpatched, or other than the first.

    Example: hookpatch run -p fuse_qkv_off --report reports export.py; hookpatch report reports
    """
    run = receipts(folder)
    if html is not None:
        _write(html, page_of(run))
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
        for said in run.warnings:
            console.print(Text.assemble(("warning", "yellow"), f" {said}"), soft_wrap=True)
        console.print(table)
    if run.problems:
        raise typer.Exit(1)


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingError("--html", f"{path} cannot be written: {error.strerror}") from None


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
    if patch.reason is not None and patch.state not in ("failed", "skipped"):  # these are problems, and told there
        line.append(f"\n          {patch.reason}", style="dim")
    if patch.reasons:
        line.append(f"\n          why {patch.reasons}", style="dim")
    return line
